package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

// programs maps the programs with which a command may begin to functions that check the arguments. The function is nil
// if a program needs something that the test does not have, such as a cluster, a registry or a database.
var programs = map[string]func(args []string) error{
	"caddy":       codehub,
	"./caddy":     codehub,
	"curl":        request,
	"make":        target,
	"go":          goTest,
	"helm":        chart,
	"kubectl":     kubectl,
	"systemctl":   units,
	"systemd-run": asAUnit,
	"dpkg":        nil, "editor": nil, // make test-systemd installs the package
	"xargs":     nil,
	"xcaddy":    nil, // make build does the same, and the tests use what it builds
	"pg_dump":   nil,
	"sha256sum": nil, "zstd": nil, "tar": nil, "age": nil, "age-keygen": nil,
	".": nil, "mkdir": nil, "chmod": nil, "echo": nil, "rm": nil, "sleep": nil, "kill": nil, "export": nil,
	"pg_restore": nil, "./build.sh": nil,
	"cd": nil, "set": nil, "find": nil, // TestMovingAHome runs them
	"cat": nil, "sudo": nil, "docker": nil, "psql": nil, // TestSecretsAreRotatedWithoutAGap makes such roles
	"ip": nil, "iptables": nil, // needs two machines
	"[": nil, "timeout": nil, "rmdir": nil, "mv": nil, "exec": nil, // TestCloningARepository runs them
}

// commands checks a block of shell commands.
func commands(t *testing.T, b block) {
	t.Helper()
	check := exec.CommandContext(t.Context(), "sh", "-n")
	check.Stdin = strings.NewReader(b.text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s: %v %s\n%s", b.document, err, out, b.text)
	}
	for _, words := range simpleCommands(withoutComments(b)) {
		look, known := programs[words[0]]
		if !known {
			t.Errorf("%s: nothing is known of %q:\n%s", b.document, words[0], b.text)
		} else if look != nil {
			if err := look(words[1:]); err != nil {
				t.Errorf("%s: %s: %v", b.document, strings.Join(words, " "), err)
			}
		}
	}
}

var (
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
	keyword    = regexp.MustCompile(`^(while|do|done|if|then|fi)$`)
	redirect   = regexp.MustCompile(`^[0-9]*[<>]`)
)

// simpleCommands returns the words of each command in a shell script. It understands quotes, pipes and lists, but skips
// the content of $( ).
func simpleCommands(text string) (all [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, depth, skip := false, 0, false
	endWord := func() {
		if w := word.String(); inWord {
			switch {
			case skip:
				skip = false
			case len(words) == 0 && (assignment.MatchString(w) || keyword.MatchString(w)):
			case redirect.MatchString(w):
				skip = strings.TrimLeft(w, "0123456789<>&") == ""
			default:
				words = append(words, w)
			}
		}
		word.Reset()
		inWord = false
	}
	end := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words, skip = nil, false
	}
	text = strings.ReplaceAll(text, "\\\n", " ")
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"' && depth == 0:
			quote, inWord = r, true
		case r == '(' && i > 0 && text[i-1] == '$', depth > 0 && r == '(':
			depth, inWord = depth+1, true
		case depth > 0:
			if r == ')' {
				depth--
			}
		case r == ' ' || r == '\t':
			endWord()
		case r == '\n' || r == ';' || r == '|' || r == '&':
			end()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	end()
	return all
}

// units checks that the named systemd units exist.
func units(args []string) error {
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "deploy", "systemd", arg)); err != nil {
			return err
		}
	}
	return nil
}

// asAUnit checks the Caddy command that systemd-run runs.
func asAUnit(args []string) error {
	for i, arg := range args {
		if arg == "caddy" {
			return codehub(args[i+1:])
		}
		if !strings.HasPrefix(arg, "--") {
			break
		}
	}
	return errors.New("it runs no caddy")
}

// codehub checks a command of the program caddy. For `caddy codehub` it checks the subcommand, its flags and the number
// of its arguments.
func codehub(args []string) error {
	if args[0] != "codehub" {
		if !slices.Contains([]string{"validate", "reload", "run", "completion", "hash-password"}, args[0]) {
			return fmt.Errorf("there is no caddy %s", args[0])
		}
		return nil
	}
	cmd, rest, err := commandtest.CommandLine().Find(args)
	if err != nil {
		return err
	}
	if !cmd.Runnable() || cmd.HasSubCommands() {
		return fmt.Errorf("%s is no whole command", cmd.CommandPath())
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	given := len(cmd.Flags().Args())
	if least, most := arguments(cmd); given < least || given > most {
		return fmt.Errorf("%d arguments, and %s", given, cmd.UseLine())
	}
	return nil
}

// arguments reads in a command's usage how many arguments the command accepts: each word, or each group of
// alternatives, is one argument.
func arguments(cmd *cobra.Command) (least, most int) {
	usage := strings.Fields(cmd.Use)[1:]
	if strings.HasPrefix(strings.Join(usage, " "), "(") {
		return 0, 1
	}
	for _, word := range usage {
		most++
		if strings.Contains(word, "...") || strings.Contains(word, "…") {
			most += 100
		}
		if !strings.HasPrefix(word, "[") {
			least++
		}
	}
	return least, most
}

var isURL = regexp.MustCompile(`^(https://codehub\.example\.com|\$CODEHUB_URL)(/[^?]*)`)

// request checks a request. The API must have an operation with its path and method, and must accept its body. A
// request to a workspace is not checked.
func request(args []string) error {
	method, path, body := "GET", "", ""
	for i, arg := range args {
		switch m := isURL.FindStringSubmatch(arg); {
		case arg == "-X":
			method = args[i+1]
		case arg == "-d":
			body = args[i+1]
		case m != nil:
			path = m[2]
		}
	}
	if strings.HasPrefix(path, "/w/") {
		return nil
	}
	op, err := find(method, path)
	if err != nil || body == "" {
		return err
	}
	var given map[string]any
	if err := json.Unmarshal([]byte(body), &given); err != nil {
		return err
	}
	takes := op.RequestBody.Content["application/json"].Schema
	for name := range given {
		if takes.Properties[name] == nil {
			return fmt.Errorf("%s %s takes no %q", method, path, name)
		}
	}
	for _, name := range takes.Required {
		if given[name] == nil {
			return fmt.Errorf("%s %s needs %q", method, path, name)
		}
	}
	return nil
}

// operation contains those parts of an operation in the API's description that the guides' requests are checked
// against.
type operation struct {
	RequestBody struct {
		Content map[string]struct {
			Schema struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
}

// find returns an error if the API lacks the operation. A variable or a word in braces stands for one segment of a
// path.
func find(method, path string) (operation, error) {
	var description struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(openapi.JSON, &description); err != nil {
		return operation{}, err
	}
	for at, methods := range description.Paths {
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta("/api/v1"+at), `[^/]+`)
		if op, ok := methods[strings.ToLower(method)]; ok && regexp.MustCompile("^"+pattern+"$").MatchString(path) {
			return op, nil
		}
	}
	return operation{}, fmt.Errorf("the API has no %s %s", method, path)
}

// TestThePathsOfTheAPI checks that the operations between backticks exist.
func TestThePathsOfTheAPI(t *testing.T) {
	named := regexp.MustCompile("`(GET|POST|PATCH|DELETE) /?(?:api/v1/)?([a-z][^` ?]*)")
	found := 0
	for _, d := range guides(t) {
		for _, m := range named.FindAllStringSubmatch(d.text, -1) {
			found++
			if _, err := find(m[1], "/api/v1/"+m[2]); err != nil {
				t.Errorf("%s: %v", d.path, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d paths were found", found)
	}
}

// TestTheCommandsBetweenBackticks checks that the commands `caddy codehub …` in the guides exist, with their flags.
func TestTheCommandsBetweenBackticks(t *testing.T) {
	found := 0
	for _, d := range guides(t) {
		for _, m := range regexp.MustCompile("`caddy (codehub [^`]*)`").FindAllStringSubmatch(d.text, -1) {
			found++
			if strings.Contains(m[1], "…") {
				continue
			}
			cmd, rest, err := commandtest.CommandLine().Find(strings.Fields(m[1]))
			if err == nil && cmd.HasSubCommands() && len(rest) > 0 {
				err = fmt.Errorf("there is no %s", strings.Join(rest, " "))
			}
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: caddy %s: %v", d.path, m[1], err)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}

// TestEveryCommandIsInItsGuide checks that cli.md names each command.
func TestEveryCommandIsInItsGuide(t *testing.T) {
	guide, err := os.ReadFile("cli.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.Name() != "help" {
				look(c)
			}
		}
		if found++; !regexp.MustCompile("[` ]" + cmd.Name() + "[` ]").Match(guide) {
			t.Errorf("cli.md does not have %s", cmd.CommandPath())
		}
	}
	look(commandtest.CommandLine().Commands()[0])
	if found < 30 {
		t.Errorf("only %d commands were found", found)
	}
}

// target checks that the Makefile has the target.
func target(args []string) error {
	makefile, err := os.ReadFile("../../Makefile")
	if err == nil && !regexp.MustCompile(`(?m)^`+args[0]+`:`).Match(makefile) {
		err = fmt.Errorf("the Makefile has no target %s", args[0])
	}
	return err
}

// goTest checks that the package of a `go test` command has a test whose name begins with the value of -run.
func goTest(args []string) error {
	i := slices.Index(args, "-run")
	if args[0] != "test" || i < 0 {
		return fmt.Errorf("go %s is not known", args)
	}
	files, err := filepath.Glob(filepath.Join("../..", args[1], "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "\nfunc "+args[i+1]) {
			return err
		}
	}
	return fmt.Errorf("%s has no test %s", args[1], args[i+1])
}

// chart checks a Helm command on the chart of this repository.
func chart(args []string) error {
	if len(args) < 3 || args[0] != "install" && args[0] != "upgrade" && args[0] != "template" {
		return fmt.Errorf("%q is no release with a chart", args)
	}
	_, err := os.Stat(filepath.Join("../..", args[2]))
	for i, arg := range args {
		if arg == "-s" && err == nil {
			_, err = os.Stat(filepath.Join("../..", args[2], args[i+1]))
		}
	}
	return err
}

// kubectl checks a kubectl command, and the Caddy command that it runs in a gateway's Pod.
func kubectl(args []string) error {
	if i := slices.Index(args, "--"); i >= 0 && args[i+1] == "caddy" {
		return codehub(args[i+2:])
	}
	if args[0] == "-n" {
		args = args[2:]
	}
	if !slices.Contains([]string{"create", "label", "rollout", "taint", "patch", "get", "apply"}, args[0]) {
		return fmt.Errorf("nothing is known of kubectl %s", args[0])
	}
	return nil
}
