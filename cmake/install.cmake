# Where `cmake --install` puts what there is, and the Debian package of it. bluc carries all that it takes to make a trainer - the runtime,
# the C library, the standard library - so the installed tree may be moved anywhere. The library's files are there to be read.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # packing doesn't build
set(share ${CMAKE_INSTALL_DATADIR})

install(TARGETS bluc blu-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES frontend/shell/bluc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES frontend/shell/bluc.bash DESTINATION ${share}/bash-completion/completions RENAME bluc)
# Below /usr/local zsh looks into the first folder, below /usr into the second.
install(FILES frontend/shell/_bluc DESTINATION ${share}/zsh/site-functions)
install(FILES frontend/shell/_bluc DESTINATION ${share}/zsh/vendor-completions)
install(DIRECTORY frontend/editors/vim/ DESTINATION ${share}/vim/vimfiles)
install(DIRECTORY frontend/editors/vscode DESTINATION ${share}/blu/editors)
install(DIRECTORY frontend/std models DESTINATION ${share}/blu FILES_MATCHING PATTERN *.blu)
install(DIRECTORY docs DESTINATION ${share}/doc/blu FILES_MATCHING PATTERN *.md)
install(FILES README.md LICENSE cmake/copyright DESTINATION ${share}/doc/blu)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME blu)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Blu authors <blu@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for training programs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "compiler for training programs
 A model, its loss and its optimizer, written in a small language, become one
 static program that trains, evaluates and describes that model.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The libraries that bluc names: asked of the system that packs, where it can answer; else those of Debian 12.
find_program(BLU_SHLIBDEPS dpkg-shlibdeps)
if(BLU_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libgcc-s1, libstdc++6 (>= 12), libzstd1 (>= 1.5.2)")
endif()
include(CPack)
