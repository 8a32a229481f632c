package processtest

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// clients are the fields through which packages reach a server, by folder.
var clients = map[string][]string{"backend/docker": {"api"}, "backend/docker/doctor": {"api"},
	"backend/docker/internal/network": {"api"},
	"backend/docker/internal/image":   {"api", "API"}, "backend/docker/internal/home": {"api"}, "backend/docker/internal/freezer": {"api"}, "backend/docker/internal/ending": {"api"}, "backend/docker/internal/sampler": {"api"}, "backend/docker/internal/sandbox": {"api"}, "archive": {"client"}}

// clientsOf returns the fields through which a package reaches a server. The fields of the cluster's client are found
// by their type, so that a new one cannot be forgotten.
func clientsOf(t *testing.T, name string) (fields []string) {
	t.Helper()
	if on, below := strings.CutPrefix(name+"/", "backend/kubernetes/"); !below || on == "cluster/" { // the client itself
		return clients[name]
	}
	for _, file := range sourcesOf(t, "../backend/kubernetes/cluster") {
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && len(f.Names) == 1 && isResource(f.Type) {
				fields = append(fields, f.Names[0].Name)
			}
			return true
		})
	}
	if len(fields) < 6 {
		t.Fatalf("the cluster's client has the resources %v: is this test still reading it?", fields)
	}
	return fields
}

// isResource reports whether a type is *Resource[…].
func isResource(e ast.Expr) bool {
	p, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := p.X.(*ast.IndexListExpr)
	if !ok {
		return false
	}
	name, ok := of.X.(*ast.Ident)
	return ok && name.Name == "Resource"
}

// changing and reading list the methods of the clients. Every method must be in one of the lists, so that a new method
// cannot be overlooked.
var (
	changing = set("ContainerCreate", "ContainerStart", "ContainerRemove", "ContainerPause", "ContainerUnpause", "VolumeCreate", "VolumeRemove",
		"VolumesPrune", "NetworkCreate", "NetworkRemove", "ImagePull", "ContainerExecCreate", "ContainerExecStart", "ContainerExecAttach", "ContainerExecResize",
		"PutObject", "DeleteObjects", "CreateBucket", "AbortMultipartUpload", "CreateMultipartUpload", "UploadPart",
		"CopyToContainer", "ContainerRename", "ContainerStop", "ImageLoad", "ImageRemove", "Create", "Patch", "Delete")
	reading = set("Now", "Inspect", "Since", "ContainerInspect", "ContainerList", "ContainerLogs", "ContainerWait", "VolumeInspect", "VolumeList", "NetworkInspect",
		"NetworkList", "ImageInspect", "ImageList", "Info", "Epoch", "Events", "ContainerTop", "Usage", "DaemonHost", "ContainerStatPath", "CopyFromContainer", "ContainerExecInspect", "Identity", "Answers", "StorageDriver", "Close", "ClientVersion",
		"GetObject", "ListObjectsV2", "ListMultipartUploads", "HeadBucket", "HeadObject", "Options",
		"Get", "List", "Await")
)

// otherBackend is the folder of the container backend that this run does not use.
func otherBackend() string {
	if devenv.OnKubernetes() {
		return "backend/docker"
	}
	return "backend/kubernetes"
}

// TestExceptions: the functions and tests named in the exceptions of either backend exist, and each method of a client
// is classified as changing or reading.
func TestExceptions(t *testing.T) {
	found := changesOf(t, "")
	for _, list := range []map[string]exception{exceptions, exceptionsOnKubernetes} {
		for f, e := range list {
			if !found[f] {
				t.Errorf("%s is an exception, but the source has no such function that changes something", f)
			}
			e.check(t, f)
		}
	}
	for what, e := range transitionsOnDocker {
		e.check(t, what)
	}
}

// checkSources parses the product. It fails the test for every function that changes something, unless a scenario
// reaches the function or the function is an exception.
func checkSources(t *testing.T, reached []string) {
	for _, f := range slices.Sorted(maps.Keys(changesOf(t, otherBackend()))) { // a run on the other one looks at that
		_, excepted := exceptions[f]
		if !excepted && devenv.OnKubernetes() {
			_, excepted = exceptionsOnKubernetes[f]
		}
		switch was := slices.Contains(reached, f); {
		case !was && !excepted:
			t.Errorf("%s changes something, and no scenario reaches it: extend one, or name in exceptions what else proves it", f)
		case was && excepted:
			t.Errorf("%s is reached: remove it from exceptions", f)
		}
	}
}

// changesOf returns the functions of the product that change something, each with the way in which it does so. It
// leaves out the functions in the given folder.
func changesOf(t *testing.T, without string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	root := ".."
	err := filepath.WalkDir(root, func(dir string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(dir, root), string(filepath.Separator)))
		switch {
		case name == "":
		case name == "devenv", name == "processtest", d.Name() == "testdata", strings.HasSuffix(name, "test"), name == without:
			return filepath.SkipDir
		}
		maps.Copy(found, changingFunctions(t, dir, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Errorf("only %d functions that change something were found in the source: is this test still reading it?", len(found))
	}
	return found
}

// changingFunctions returns the functions of a package, as the runtime names them, that call a
// changing method of a client, each with the method. It also returns the functions that contain or name a statement
// that writes, each with "SQL".
func changingFunctions(t *testing.T, dir, name string) map[string]bool {
	t.Helper()
	parsed, fields := sourcesOf(t, dir), clientsOf(t, name)
	writing := writingNames(parsed)
	found := make(map[string]bool)
	for _, file := range parsed {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if method := clientCall(n, fields); method != "" {
					if changing[method] == reading[method] {
						t.Errorf("%s calls %s: add it to changing or to reading", funcName(name, f), method)
					}
					found[funcName(name, f)+" "+method] = changing[method]
				}
				if writesRows(n, writing) {
					found[funcName(name, f)+" SQL"] = true
				}
				return true
			})
		}
	}
	maps.DeleteFunc(found, func(_ string, changes bool) bool { return !changes })
	return found
}

// clientCall returns the method if n calls a method of a client in one of those fields.
func clientCall(n ast.Node, fields []string) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if on, ok := method.X.(*ast.SelectorExpr); ok && slices.Contains(fields, on.Sel.Name) {
		return method.Sel.Name
	}
	return ""
}

// writingNames returns the constants and variables of a package that hold statements that write, or are made from such
// a statement.
func writingNames(files []*ast.File) map[string]bool {
	names := make(map[string]bool)
	for before := -1; before != len(names); {
		before = len(names)
		for _, file := range files {
			for _, d := range file.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range decl.Specs {
					spec, ok := s.(*ast.ValueSpec)
					if !ok {
						continue
					}
					for i, value := range spec.Values {
						ast.Inspect(value, func(n ast.Node) bool {
							if writesRows(n, names) {
								names[spec.Names[i].Name] = true
							}
							return true
						})
					}
				}
			}
		}
	}
	return names
}

// writesRows reports whether n is a statement that writes, or the name of one.
func writesRows(n ast.Node, names map[string]bool) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		return n.Kind == token.STRING && isWrite(n.Value)
	case *ast.Ident:
		return names[n.Name]
	}
	return false
}

// funcName is the runtime's name of the function, without the module's path.
func funcName(pkg string, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return pkg + "." + f.Name.Name
	}
	switch r := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return pkg + ".(*" + r.X.(*ast.Ident).Name + ")." + f.Name.Name
	case *ast.Ident:
		return pkg + "." + r.Name + "." + f.Name.Name
	}
	return pkg + ".?." + f.Name.Name
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
