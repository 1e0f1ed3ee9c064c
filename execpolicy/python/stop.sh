# Argument: the interpreter's directory.
dir=$1
same && kill -KILL "$pid"
# Whoever waits for the interpreter may put one more file there.
rm -rf "$dir" || rm -rf "$dir"
