# Environment modules, for Lmod and for Environment Modules: installed under share/gpucoll/modulefiles, which goes into MODULEPATH.
modulefilesdir = $(datadir)/gpucoll/modulefiles/gpucoll
modulefiles_DATA = contrib/modulefiles/$(PACKAGE_VERSION).lua contrib/modulefiles/$(PACKAGE_VERSION)
CLEANFILES += $(modulefiles_DATA)
EXTRA_DIST += contrib/modulefiles/gpucoll.lua.in contrib/modulefiles/gpucoll.tcl.in

GC_EDIT_MODULEFILE = $(AM_V_GEN)$(MKDIR_P) contrib/modulefiles && path='$(OMPI_PLUGIN_DIR)' && \
	test "$$path" = '$(OMPI_SYSTEM_PLUGIN_DIR)' || path="$$path:$(OMPI_SYSTEM_PLUGIN_DIR)"; \
	sed -e 's|@VERSION[@]|$(PACKAGE_VERSION)|; s|@OMPI_VERSION[@]|$(OMPI_VERSION)|; s|@bindir[@]|$(bindir)|' \
	  -e 's|@libdir[@]|$(libdir)|; s|@includedir[@]|$(includedir)|' -e "s|@PLUGIN_PATH[@]|$$path|"
contrib/modulefiles/$(PACKAGE_VERSION).lua: contrib/modulefiles/gpucoll.lua.in Makefile
	$(GC_EDIT_MODULEFILE) $(srcdir)/contrib/modulefiles/gpucoll.lua.in >$@
contrib/modulefiles/$(PACKAGE_VERSION): contrib/modulefiles/gpucoll.tcl.in Makefile
	$(GC_EDIT_MODULEFILE) $(srcdir)/contrib/modulefiles/gpucoll.tcl.in >$@
modulefiles: $(modulefiles_DATA)
.PHONY: modulefiles
