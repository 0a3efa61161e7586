# install.sh - what `cmake --install` and `cpack` make works on its own: moved to another folder, without the build folder and the sources.
. "$(dirname "$0")/common.sh"
build=$(cd "$(dirname "$bluc")/.." && pwd)

cat > first.blu << 'END'
import nn;
import optim;
let net = nn.Perceptron([784, 32, 10]);
train (image: u8[100, 28, 28], label: u8[100]) from idx(dir = "/usr/share/datasets/fashion-mnist") {
  loss = cross_entropy(net(reshape(f32(image) / 255, 100, 784)), label);
  optimizer = optim.adamw(1e-3);
  epochs = 1;
}
END
compile first.blu -o wanted

# The tree has what it should and makes the same trainer, which trains.
works() { # prefix
  run 0 env -i PATH=/nonexistent "$1/bin/bluc" first.blu -o made
  cmp made wanted || fail "$1: another trainer"
  run 0 ./made train --steps 1 --out "made.run" --quiet
  rm -rf made made.run
  run 0 "$1/bin/blu-opt" --help
  run 0 "$1/bin/bluc" check "$1/share/blu/models/fashion.blu"
  run 0 bash -c '. "$1" && complete -p bluc' bash "$1/share/bash-completion/completions/bluc"
  for binary in bluc blu-opt; do
    grep -qF -e "$top" -e "$build" "$1/bin/$binary" && fail "$binary knows where it was built"
  done
  (cd "$1" && find . -type f | sort) > list
  for file in bin/blu-opt bin/bluc share/bash-completion/completions/bluc share/blu/editors/vscode/package.json share/blu/models/fashion.blu \
    share/blu/std/nn.blu share/doc/blu/LICENSE share/doc/blu/README.md share/doc/blu/copyright share/doc/blu/docs/language.md \
    share/man/man1/bluc.1 share/vim/vimfiles/ftdetect/blu.vim share/vim/vimfiles/syntax/blu.vim share/zsh/site-functions/_bluc; do
    grep -qxF "./$file" list || fail "$1 lacks $file"
  done
  same 'documents' "$(ls "$1/share/doc/blu/docs")" "$(ls "$top/docs")"
  same 'the library' "$(ls "$1/share/blu/std")" "$(cd "$top/frontend/std" && ls ./*.blu | sed 's|./||')"
}

run 0 cmake --install "$build" --prefix "$work/here" --strip
mkdir elsewhere
mv here 'elsewhere/a tree'
works 'elsewhere/a tree'
mv list installed

# In a file system with nothing but the tree, the libraries that bluc names, and the data.
bare() { unshare --mount sh -c 'mkdir -p bare/proc && mount -t proc proc bare/proc && exec chroot bare "$@"' sh "$@"; }
if unshare --mount sh -c 'mkdir -p bare/proc && mount -t proc proc bare/proc' 2> err; then
  mkdir -p "bare/$data"
  cp -r 'elsewhere/a tree' bare/blu
  cp first.blu bare
  cp "$data"/*.gz "bare/$data"
  ldd bare/blu/bin/bluc | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
    mkdir -p "bare$(dirname "$library")"
    cp -L "$library" "bare$library"
  done
  run 0 bare /blu/bin/bluc /first.blu -o /made
  run 0 bare /made train --steps 1 --out /run --quiet
  run 0 bare /made eval --out /run
else
  echo "this user may not mount: the check inside chroot was left out"
fi

# The package, unpacked, is the same tree below /usr.
if command -v dpkg-deb > out; then
  run 0 cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/packed"
  package=$(echo packed/blu_*_amd64.deb)
  run 0 dpkg-deb --extract "$package" root
  works root/usr
  same 'files of the package' "$(cat list)" "$(cat installed)"
  same 'name' "$(dpkg-deb --field "$package" Package Version Architecture | xargs)" \
    "Package: blu Version: $("$bluc" --version | sed 's/bluc //') Architecture: amd64"
  dpkg-deb --field "$package" Depends > out
  for library in libc6 libstdc++6 libzstd1; do grep -qF "$library" out || fail "the package doesn't depend on $library"; done
  dpkg-deb --contents "$package" | awk '$2 != "root/root" || substr($1, 6, 1) == "w" || substr($1, 9, 1) == "w"' > out
  [ -s out ] && fail "owners and modes: $(head -n 3 out)"
  holds 'bytes of the package' "$(stat -c %s "$package")" 'x < 80e6'
else
  echo 'no dpkg-deb: the package was left out'
fi
finish
