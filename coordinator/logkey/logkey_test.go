package logkey

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// parse reads the program's own source, without tests and the code that only tests use.
func parse(t *testing.T, each func(path string, file *ast.File)) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "testdata" || name == "devenv" || name == "preview" || name == "testlog" ||
			strings.HasSuffix(name, "test")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		found++
		each(path, file)
		return nil
	})
	if err != nil || found < 300 {
		t.Fatalf("%d files were read: %v", found, err)
	}
}

// key is one constant of this package.
type key struct{ name, value, meaning string }

func keys(t *testing.T) (all []key) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "logkey.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, key{spec.Names[0].Name, value, strings.TrimSpace(spec.Comment.Text())})
		}
		return true
	})
	return all
}

// kinds maps a field's constructor to the kind of its value. "" is for those without a key.
var kinds = map[string]string{
	"String": "text", "Strings": "texts", "Stringp": "text", "Stringer": "text", "Error": "", "Skip": "",
	"Int": "number", "Intp": "number", "Int64": "number", "Float64": "number", "Bool": "bool", "Boolp": "bool",
	"Duration": "seconds", "Time": "time",
}

// notFields are the other functions of zap that the program calls.
var notFields = []string{"New", "NewNop", "WrapCore", "NewAtomicLevelAt"}

// TestEveryFieldHasAKeyOfTheTable: each field's key is a constant of this package, and each constant is used, always
// for values of one kind.
func TestEveryFieldHasAKeyOfTheTable(t *testing.T) {
	known, used := make(map[string]bool), make(map[string]string)
	for _, k := range keys(t) {
		known[k.name] = true
	}
	parse(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			pkg, name := selector(call.Fun)
			kind, isField := kinds[name]
			switch {
			case pkg != "zap" || slices.Contains(notFields, name):
			case !isField:
				t.Errorf("%s: zap.%s: say in the test what it makes", path, name)
			case kind != "":
				from, constant := selector(call.Args[0])
				if from != "logkey" || !known[constant] {
					t.Errorf("%s: the key of a zap.%s is no constant of package logkey", path, name)
				} else if before := used[constant]; before != "" && before != kind {
					t.Errorf("%s: %s is a %s here and a %s elsewhere", path, constant, kind, before)
				}
				used[constant] = kind
			}
			if pkg == "logkey" {
				used[name] = kind
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool { // attributes of traces, too
			if from, constant := selector(n); from == "logkey" && used[constant] == "" {
				used[constant] = ""
			}
			return true
		})
	})
	for name := range known {
		if _, ok := used[name]; !ok && name != "Error" {
			t.Errorf("nothing uses %s", name)
		}
	}
	if len(used) < 50 {
		t.Errorf("only %d keys were found", len(used))
	}
}

// selector returns the parts of x.name.
func selector(n ast.Node) (x, name string) {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if id, ok := s.X.(*ast.Ident); ok {
			return id.Name, s.Sel.Name
		}
	}
	return "", ""
}

// logger matches the names of the program's loggers.
var logger = regexp.MustCompile(`(?i)^(log|logger)$`)

// TestMessagesAreConstant: people find a line of the log by its message. Therefore no message contains values, and each
// message is written in only one place.
func TestMessagesAreConstant(t *testing.T) {
	writes := []string{"Debug", "Info", "Warn", "Error"}
	found := make(map[string]string)
	parse(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(writes, s.Sel.Name) || !isLogger(s.X) {
				return true
			}
			message, constant := text(call.Args[0])
			switch where := found[message]; {
			case !constant && !exempt[filepath.ToSlash(strings.TrimPrefix(path, root+"/"))]:
				t.Errorf("%s: the message of a %s is no constant", path, s.Sel.Name)
			case constant && where != "":
				t.Errorf("%s and %s both log %q", where, path, message)
			case constant:
				found[message] = path
				if message != strings.TrimRight(message, ".\n ") {
					t.Errorf("%s: %q ends with a full stop or a space", path, message)
				}
			}
			return true
		})
	})
	if len(found) < 40 {
		t.Errorf("only %d messages were found: is this test still reading the source?", len(found))
	}
}

// exempt are the files that pass on messages.
var exempt = map[string]bool{
	"coordinator/outage/outage.go":             true, // the messages of an outage, which its creator chooses
	"coordinator/coordinator.go":               true, // what the Redis client prints
	"coordinator/dataplane/service/service.go": true, // logChange, whose callers pass constants
	"caddymodule/app.go":                       true, // the warnings about outdated settings
	"coordinator/control/orphan/search.go":     true, // ends with the command, which is a constant
}

func isLogger(n ast.Expr) bool {
	switch x := n.(type) {
	case *ast.Ident:
		return logger.MatchString(x.Name)
	case *ast.SelectorExpr:
		return logger.MatchString(x.Sel.Name)
	case *ast.CallExpr:
		s, ok := x.Fun.(*ast.SelectorExpr)
		return ok && logger.MatchString(s.Sel.Name)
	}
	return false
}

// text returns a literal text, in one or several parts.
func text(n ast.Expr) (string, bool) {
	switch x := n.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(x.Value)
		return value, err == nil
	case *ast.BinaryExpr:
		left, ok := text(x.X)
		right, alsoOK := text(x.Y)
		return left + right, ok && alsoOK
	}
	return "", false
}

// TestTheGuideListsTheKeys: the guide's tables contain each key, in English with the words of this package.
func TestTheGuideListsTheKeys(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-zA-Z_.]+)` \\| ([^|]*) \\|$")
	for guide, heading := range map[string]string{"logs.md": "| key | meaning |", "logs.ko.md": "| 키 | 뜻 |"} {
		same := guide == "logs.md"
		content, err := os.ReadFile(filepath.Join(root, "caddymodule/docs", guide))
		if err != nil {
			t.Fatal(err)
		}
		listed := make(map[string]string)
		_, table, _ := strings.Cut(string(content), heading)
		table, _, _ = strings.Cut(table, "\n\n")
		for _, m := range row.FindAllStringSubmatch(table, -1) {
			listed[m[1]] = m[2]
		}
		for _, k := range keys(t) {
			meaning, ok := listed[k.value]
			if !ok || meaning == "" || same && meaning != k.meaning {
				t.Errorf("%s needs the row\n| `%s` | %s |", guide, k.value, k.meaning)
			}
			delete(listed, k.value)
		}
		for name := range maps.Keys(listed) {
			t.Errorf("%s lists %s, which is no key", guide, name)
		}
	}
}
