package processtest

import (
	"go/ast"
	"go/parser"
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
var clients = map[string][]string{"backend/docker": {"api"}, "backend/docker/bridge": {"api"}, "backend/docker/doctor": {"api"},
	"backend/docker/firewall": {"api"},
	"backend/docker/helper":   {"API"}, "backend/docker/home": {"api"}, "backend/docker/image": {"api"}, "backend/docker/sampler": {"api"}, "archive": {"client"},
	"backend/kubernetes": {"Pods", "Claims", "Jobs", "Secrets", "NetworkPolicies"}}

// changing and reading are the methods of the clients. A method must be in one of them:
// a new one is not known yet.
var (
	changing = set("ContainerCreate", "ContainerStart", "ContainerRemove", "ContainerUnpause", "VolumeCreate", "VolumeRemove",
		"VolumesPrune", "NetworkCreate", "NetworkRemove", "ImagePull", "ContainerExecCreate", "ContainerExecStart",
		"PutObject", "DeleteObjects", "CreateBucket", "AbortMultipartUpload", "CreateMultipartUpload", "UploadPart",
		"CopyToContainer", "Create", "Patch", "Delete")
	reading = set("ContainerInspect", "ContainerList", "ContainerLogs", "ContainerWait", "VolumeInspect", "VolumeList", "NetworkInspect",
		"NetworkList", "ImageInspect", "Info", "Epoch", "Events", "ContainerTop", "ContainerStatPath", "CopyFromContainer", "ContainerExecInspect", "Identity", "Answers", "StorageDriver", "Close", "ClientVersion",
		"GetObject", "ListObjectsV2", "ListMultipartUploads", "HeadBucket", "HeadObject", "Options",
		"Get", "List", "Await")
)

// Why no scenario reaches what changes something.
const (
	byPeople    = "a request of a person or a command, in one statement or transaction: no process does it again"
	bySessions  = "signing in concerns no workspace, and is one statement or transaction"
	byAdoption  = "needs a server that is another one than recorded; package identity tests that"
	byRace      = "needs two processes in the same call at the same time; backendtest and package docker test those"
	byOperators = "removes an orphan on a person's command, which names it by its id; package orphan tests that"
	byRegistry  = "needs a registry; package docker tests pulls, and one that is repeated is harmless"
	byImage     = "runs a command of the image's that changes nothing of this system; package work tests that"
	byHelper    = "makes firewall rules, all at once and again when in doubt, or counts files, in a container that the next one removes; package docker tests that"
	byImages    = "gives an empty home to the image's user before the container runs, and again with every start; package docker tests that"
	byMeasure   = "writes how large a home is, in one statement; the next measurement writes it again"
	byDoctor    = "tries on a person's command what the engine can do, with an object that has no name and is removed at once"
	byPages     = "a page says how it is used, in one statement that only concerns counting; the next page says it again"
	byCheck     = "tries at the start what the store can do, with an object of its own that this check or the next one removes; package archive tests that"
	byScrub     = "records what was read of an archive, in one statement; whoever reads it next records it again"
	byKeys      = "needs encryption, and is otherwise as CreateEmpty without it; package archive tests that"
	byNeighbour = "needs a container of somebody else at an address of the workspaces; package reconcile tests that"
	byDryRun    = "asks with dryRun, which changes nothing"
	byGrowth    = "asks for a larger home after a change of that setting, in one request that is made again until it is; package kubernetes tests that"
	byCluster   = "a cluster gives addresses to its Pods itself"
	byStop      = "the orderly end of a process, and harmless when it does not happen: package ttl tests that"
)

// exceptions are what no scenario reaches, with the reason.
var exceptions = map[string]string{
	"backend/docker/sampler.(*Sampler).askImage ContainerExecCreate": byImage,
	"backend/docker/sampler.(*Sampler).askImage ContainerExecStart":  byImage,
	"backend/docker/image.(*Store).Pull ImagePull":                   byRegistry,
	"backend/kubernetes.(*Backend).removeUnstarted Delete":           byRace,
	"backend/kubernetes.(*Backend).grow Patch":                       byGrowth,
	"backend/kubernetes.(*Backend).whyNoPod Create":                  byDryRun,
	"backend/docker.(*Docker).Remove NetworkRemove":                  byOperators,
	"backend/docker.(*Docker).removeScratch VolumeRemove":            byOperators,
	"backend/docker.(*Docker).checkNoJob ContainerRemove":            byRace,
	"backend/docker.(*Docker).start ContainerUnpause":                byRace,
	"backend/docker/bridge.(*Network).remove NetworkRemove":          byRace,
	"store.(*Store).AcceptIdentity SQL":                              byPeople,
	"store.(*Store).Create SQL":                                      byPeople,
	"store.(*Store).Delete SQL":                                      byPeople,
	"store.(*Store).Undelete SQL":                                    byPeople,
	"store.(*Store).KeepAwake SQL":                                   byPeople,
	"store.(*Store).Update SQL":                                      byPeople,
	"store.(*Store).Recover SQL":                                     byPeople,
	"store/accounts.(*Store).AddUser SQL":                            byPeople,
	"store/accounts.(*Store).ChangeUser SQL":                         byPeople,
	"store/accounts.(*Store).changeUser SQL":                         byPeople,
	"store/accounts.(*Store).DisableUser SQL":                        byPeople,
	"store/accounts.(*Store).AddSession SQL":                         bySessions,
	"store/accounts.(*Store).EndSessionsOf SQL":                      bySessions,
	"store/accounts.(*Store).TouchSession SQL":                       bySessions,
	"store/accounts.(*Store).AddIdentity SQL":                        bySessions,
	"store/accounts.(*Store).AddExternalSession SQL":                 bySessions,
	"store/accounts.(*Store).EndExternalSessions SQL":                bySessions,
	"store/accounts.(*Store).OpenNamedSession SQL":                   bySessions,
	"store/accounts.(*Store).SetRole SQL":                            bySessions,
	"store/accounts.(*Store).CountSignIn SQL":                        bySessions,
	"store/accounts.(*Store).ClearSignIn SQL":                        bySessions,
	"store/accounts.(*Store).AddTicket SQL":                          bySessions,
	"store/accounts.(*Store).EndSession SQL":                         bySessions,
	"store/accounts.(*Store).RedeemTicket SQL":                       bySessions,
	"store/accounts.(*Store).ReplaceHash SQL":                        bySessions,
	"store.(*Store).FoundIdentity SQL":                               byAdoption,
	"store.(*Store).SetPageActivity SQL":                             byPages,
	"store/postgres.(*DB).WriterGone SQL":                            byStop,

	"backend/docker/helper.Helper.Run ContainerCreate":             byHelper,
	"backend/docker/helper.Helper.Run ContainerStart":              byHelper,
	"backend/docker/helper.Helper.Run ContainerRemove":             byHelper,
	"backend/docker/helper.Helper.removeAbandoned ContainerRemove": byHelper,
	"backend/docker/firewall.decision.make VolumeCreate":           byHelper,
	"backend/docker/firewall.decision.forget VolumeRemove":         byOperators,
	"backend/docker/home.(*Volumes).setOwner CopyToContainer":      byImages,
	"store.(*Store).SaveHome SQL":                                  byMeasure,
	"backend/docker/doctor.(*Doctor).DiskLimit ContainerCreate":    byDoctor,
	"backend/docker/doctor.(*Doctor).DiskLimit ContainerRemove":    byDoctor,
	"backend/docker/doctor.(*Doctor).HomeLimit VolumeCreate":       byDoctor,
	"backend/docker/doctor.(*Doctor).HomeLimit VolumeRemove":       byDoctor,
	"store.(*Store).DropAddress SQL":                               byNeighbour,
	"store.(*Store).Checked SQL":                                   byScrub,
	"store.(*Store).Revert SQL":                                    byPeople,
	"archive.(*Store).putEncrypted PutObject":                      byKeys,
	"archive.(*checking).put PutObject":                            byCheck,
	"archive.(*checking).upload AbortMultipartUpload":              byCheck,
	"archive.(*checking).upload CreateMultipartUpload":             byCheck,
	"archive.(*checking).upload UploadPart":                        byCheck,
	"archive.(*checking).uploads AbortMultipartUpload":             byCheck,
}

// exceptionsOnKubernetes are what only a run on Kubernetes does not reach.
var exceptionsOnKubernetes = map[string]string{
	"store.(*Store).TakeAddress SQL": byCluster,
}

// otherBackend is the folder of the container backend on which this run is not.
func otherBackend() string {
	if devenv.OnKubernetes() {
		return "backend/docker"
	}
	return "backend/kubernetes"
}

// checkSources parses the product and fails the test for every function that changes
// something, and how, if that is neither among the reached ones nor an exception.
func checkSources(t *testing.T, reached []string) {
	found := make(map[string]bool)
	root := ".."
	err := filepath.WalkDir(root, func(dir string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(dir, root), string(filepath.Separator)))
		switch {
		case name == "devenv" || name == "processtest" || d.Name() == "testdata" || strings.HasSuffix(name, "test") && name != "":
			return filepath.SkipDir
		}
		if name == otherBackend() {
			return filepath.SkipDir // a run on the other backend looks at it
		}
		for f := range changingFunctions(t, dir, name) {
			found[f] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Errorf("only %d functions that change something were found in the source: is this test still reading it?", len(found))
	}
	for _, f := range slices.Sorted(maps.Keys(found)) {
		why := exceptions[f]
		if devenv.OnKubernetes() && exceptionsOnKubernetes[f] != "" {
			why = exceptionsOnKubernetes[f]
		}
		switch was := slices.Contains(reached, f); {
		case !was && why == "":
			t.Errorf("%s changes something, and no scenario reaches it: extend one, or say why in exceptions", f)
		case was && why != "":
			t.Errorf("%s is reached: remove it from exceptions", f)
		}
	}
	for f := range exceptions {
		if !found[f] && !strings.HasPrefix(f, otherBackend()) {
			t.Errorf("%s is in exceptions, but the source has no such function that changes something", f)
		}
	}
}

// changingFunctions returns the functions of a package, as the runtime names them, that
// call a changing method of a client, each with the method, or contain or name a statement
// that writes, each with "SQL".
func changingFunctions(t *testing.T, dir, name string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	writing := writingNames(parsed)
	found := make(map[string]bool)
	for _, file := range parsed {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if method := clientCall(n, clients[name]); method != "" {
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

// clientCall returns the method if n is a call of one of a client in one of those fields.
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

// writingNames returns the constants and variables of a package that hold statements that
// write, or are made from one that does.
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

// funcName is how the runtime calls the function, without the module's path.
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
