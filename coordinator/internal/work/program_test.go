package work

import "testing"

func TestWhatPeopleDebugIsTheirOwn(t *testing.T) {
	for args, want := range map[string]bool{
		"/usr/lib/code-server/lib/node ./app.js":            true,
		"node --enable-source-maps src/index.js":            true,
		"node /home/coder/project/dist/main.js --port 3000": true,
		"python3 -u /home/coder/train.py":                   true,
		"/home/coder/project/__debug_bin123":                true,
		"./a.out":                                           true,
		"python3 /home/coder/.local/share/code-server/extensions/ms-python.debugpy/debugpy/launcher 4711 -- /home/coder/x.py": true,
		"java -agentlib:jdwp=transport=dt_socket,server=n -cp /home/coder/bin Main":                                           true,
		"/home/coder/go/bin/dlv dap --listen=127.0.0.1:4711":                                                                  true,

		"":                             false,
		"gopls -mode=stdio":            false,
		"/home/coder/go/bin/gopls":     false,
		"/usr/bin/git status -z -uall": false,
		"node /usr/lib/code-server/out/node/entry.js":                                                           false,
		"/usr/lib/code-server/lib/node /usr/lib/code-server/lib/vscode/out/bootstrap-fork --type=extensionHost": false,
		"node /home/coder/project/node_modules/typescript/lib/tsserver.js":                                      false,
		"/home/coder/project/.venv/bin/python -m pylsp":                                                         false,
		"/home/coder/.local/share/code-server/extensions/rust-lang.rust-analyzer/server/rust-analyzer":          false,
		"/home/other/a.out":      false,
		"python3 -c import time": false,
		"sh -c ./app":            false,
		"java -jar /home/coder/.local/share/code-server/extensions/redhat.java/server/equinox.jar": false,
	} {
		if got := debugs(args) || isOwn(file(args)); got != want {
			t.Errorf("%q: got %t", args, got)
		}
	}
}
