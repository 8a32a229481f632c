package openapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/codehub/gateway/caddymodule/internal/api"
	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv/constants"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// object is a JSON object of the document.
type object = map[string]any

// operation is the part of a route's description that is not in the table of the routes.
type operation struct {
	api.Route
	tag     string
	id      string // as in the table of the routes
	summary string
	about   string
	// params are the parameters of the query and the header. The parameters of the path follow from the route's
	// pattern.
	params []parameter
	// body is the schema of the request's body, nil if it has none. If optional is true, the body may be missing.
	body     object
	optional bool
	// answer is a value of the answer's type; it is nil if the answer has no body. media is the media type of the
	// answer's body if that is not JSON.
	status int
	answer any
	media  string
	// lines is true if it may also answer with JSON lines.
	lines bool
	// also is another status with the same answer; 0 means none.
	also int
	// problems are the problems that are specific to the operation.
	problems []string
}

// methodAndPath returns the route's method and its path below /api/v1.
func (o operation) methodAndPath() (method, path string) {
	method, path, _ = strings.Cut(o.Pattern, " ")
	return method, strings.TrimPrefix(path, "/api/v1")
}

// common returns the problems that follow from the kind of operation. A path of the API has its guards in this order:
// guard, admit, signedIn, administrator and withID (see package api).
func (o operation) common() (problems []string) {
	method, path := o.methodAndPath()
	add := func(when bool, slugs ...string) {
		if when {
			problems = append(problems, slugs...)
		}
	}
	changes := method != http.MethodGet
	query := slices.ContainsFunc(o.params, func(p parameter) bool { return p.in == "query" })
	workspace := strings.HasPrefix(path, "/workspaces/{id}")
	add(true, "unavailable", "outdated", "misdirected", "cross-site")
	add(changes, "too-early")
	add(!o.Open(), "not-signed-in")
	add(!o.Open() || o.Scope == auth.NoScope, "invalid-token", "token-scope")
	add(o.Scope == auth.ScopeAdmin, "forbidden")
	add(strings.Contains(path, "{id}"), "not-found")
	add(changes && workspace, "changed-meanwhile")
	add(changes && !workspace && !o.Open(), "no-entity-tag")
	add(o.body != nil, "bad-request", "unsupported-media-type", "too-large")
	add(o.body != nil || query, "invalid-field")
	return problems
}

type parameter struct {
	in, name, about string
	schema          object
}

// The tags, in the order of the page.
var tags = []object{
	{"name": "Workspaces", "description": "One's own workspaces; administrators reach those of all users by id."},
	{"name": "Archives", "description": "What is kept of a workspace, and ways back to it."},
	{"name": "Account", "description": "Who is signed in, sign-ins, access tokens, limits, and this description."},
	{"name": "Events", "description": "Changes as they happen."},
	{"name": "Administration", "description": "For administrators."},
}

// Schemas of parameters and bodies. Where null is allowed in a body, it means the same as a missing
// field.
var (
	text    = object{"type": "string"}
	stored  = object{"type": "string", "pattern": `^[^\u0000]*$`}
	boolean = object{"type": "boolean"}
	name    = object{"type": "string", "pattern": line(service.MaxName), "description": fmt.Sprintf("One visible line of at most %d characters.", service.MaxName)}
	desired = object{"type": "string", "enum": []any{"RUNNING", "STANDBY", "ARCHIVED"}}
	secret  = object{"type": "string", "format": "password"}
	role    = object{"type": "string", "enum": []any{auth.RoleUser, auth.RoleAdmin}}
	limit   = object{"type": []string{"integer", "null"}, "minimum": 1, "maximum": auth.MaxUserLimit, "description": "Null: the limit of all users."}
	// Its length is bounded in bytes.
	newSecret = object{"type": "string", "format": "password", "minLength": auth.MinPassword, "maxLength": auth.MaxPassword,
		"description": fmt.Sprintf("At most %d bytes.", auth.MaxPassword)}

	pageLimit = parameter{"query", "limit", "How many items a page has; 100 without it.", number(1, 500)}
	cursor    = parameter{"query", "cursor", "The next_cursor of the page before.", text}
	before    = parameter{"query", "before", "The next_before of the page before.", object{"type": "integer", "format": "int64", "minimum": 1}}
	ifMatch   = parameter{"header", "If-Match", "The ETag that the workspace must still have, or several with commas between them.", text}
)

// timestamp is a time in a query.
var timestamp = object{"type": "string", "format": "date-time"}

// The days of a report.
var (
	firstDay = parameter{"query", "from", "The first day.", object{"type": "string", "format": "date"}}
	lastDay  = parameter{"query", "to", "The day after the last one.", object{"type": "string", "format": "date"}}
)

// actions are the values of the filter by action.
func actions() []any {
	var all []any
	for _, a := range audit.Actions() {
		if group, _, _ := strings.Cut(string(a), "."); !slices.Contains(all, any(group)) {
			all = append(all, group)
		}
		all = append(all, string(a))
	}
	return all
}

func number(least, most int) object {
	return object{"type": "integer", "minimum": least, "maximum": most}
}

func nullable(s object) object {
	out := maps.Clone(s)
	out["type"] = []string{s["type"].(string), "null"}
	if values, ok := s["enum"].([]any); ok {
		out["enum"] = append(slices.Clone(values), nil)
	}
	return out
}

// search is a text with a maximum number of characters.
func search(most int) object { return with(stored, "maxLength", most) }

func with(s object, name string, value any) object {
	s = maps.Clone(s)
	s[name] = value
	return s
}

// class returns a character class for regular expressions that matches the characters of the tables, in a form that all
// languages support. It therefore leaves out characters beyond U+FFFF.
func class(belongs func(rune) bool) string {
	var out strings.Builder
	for r := rune(0); r <= 0xffff; r++ {
		first := r
		for r <= 0xffff && belongs(r) {
			r++
		}
		switch {
		case r == first+1:
			fmt.Fprintf(&out, `\u%04x`, first)
		case r > first:
			fmt.Fprintf(&out, `\u%04x-\u%04x`, first, r-1)
		}
	}
	return out.String()
}

// Patterns for texts in one line: the names of workspaces, tokens and users.
func line(most int) string {
	return oneLine(most, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Cf, r) && r != 0x200c && r != 0x200d
	})
}

func printable(most int) string {
	return oneLine(most, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Z) && r != ' ' })
}

func word(most int) string {
	return oneLine(most, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Z) })
}

// oneLine is a pattern for a text without hidden characters that is 1 to most characters long, not counting surrounding
// spaces.
func oneLine(most int, isHidden func(rune) bool) string {
	inside := "[^" + class(isHidden) + "]"
	edge := "[^" + class(func(r rune) bool { return isHidden(r) || unicode.IsSpace(r) }) + "]"
	around := "[" + class(unicode.IsSpace) + "]*"
	return fmt.Sprintf("^%s%s(%s{0,%d}%s)?%s$", around, edge, inside, most-2, edge, around)
}

// fields is a body: an object with exactly these fields. Fields whose names begin with ! are required.
func fields(of object) object {
	properties, required := object{}, []string{}
	for name, schema := range of {
		if name[0] == '!' {
			name = name[1:]
			required = append(required, name)
		}
		properties[name] = schema
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = sorted(required)
	}
	return s
}

// choice is how a workspace is recovered.
func choice(more object) object {
	of := object{
		"choice": nullable(object{"type": "string", "enum": []any{"", string(workspace.RecoverRetry), string(workspace.RecoverVolume),
			string(workspace.RecoverArchive), string(workspace.RecoverEmpty)}}),
		"key":            nullable(object{"type": "string", "description": "The archive, for the choice archive."}),
		"replace_volume": nullable(object{"type": "boolean", "description": "The files on the volume are given up."}),
	}
	maps.Copy(of, more)
	return with(fields(of), "allOf", []object{
		whenChoice(object{"required": []string{"key"}, "properties": object{"key": object{"type": "string", "minLength": 1}}},
			object{"properties": object{"key": object{"maxLength": 0}}}, workspace.RecoverArchive),
		whenChoice(nil, object{"properties": object{"replace_volume": object{"enum": []any{false, nil}}}},
			workspace.RecoverArchive, workspace.RecoverEmpty),
	})
}

// whenChoice returns a schema that applies the rule then to these choices, and the rule otherwise to all other choices.
func whenChoice(then, otherwise object, of ...workspace.RecoveryChoice) object {
	rule := object{"if": object{"required": []string{"choice"}, "properties": object{"choice": object{"enum": of}}}, "else": otherwise}
	if then != nil {
		rule["then"] = then
	}
	return rule
}

// writable are the fields of a workspace that its owner writes.
func writable(nameField string, desired object) object {
	prose := func(most int) object { return nullable(object{"type": "string", "maxLength": most, "pattern": prose}) }
	return object{
		nameField: name, "description": prose(service.MaxDescription),
		"memo":          prose(service.MaxMemo),
		"image_ref":     object{"type": []string{"string", "null"}, "description": "The name of an image of GET /images; administrators may also give a reference."},
		"desired_state": desired,
	}
}

// prose is a pattern for a text that may have several lines, but no characters that change the text direction.
var prose = "^[^" + class(func(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' || unicode.Is(unicode.Bidi_Control, r) && r >= 0x202a
}) + "]*$"

// phaseList is a pattern for phases separated by commas.
var phaseList = strings.ReplaceAll(`^(P)?(,(P)?)*$`, "P", "PENDING|ARCHIVED|STANDBY|RUNNING|ERROR|DELETING")

// orders are the orders in which workspaces are listed.
func orders() (all []any) {
	for _, o := range []store.Order{store.ByCreation, store.ByName, store.ByUse, store.ByPhase, store.BySize, store.ByDeletion} {
		all = append(all, string(o), "-"+string(o))
	}
	return all
}

// reasons are the reasons for the phase ERROR.
func reasons() (all []any) {
	names, err := constants.Read[string]("../../../../coordinator/workspace", "ErrorReason", "")
	if err != nil {
		panic(err)
	}
	for _, r := range names {
		all = append(all, r)
	}
	return all
}

// creatable are the fields of a new workspace.
func creatable() object {
	of := writable("!name", nullable(with(desired, "enum", append([]any{""}, desired["enum"].([]any)...))))
	of["git_url"] = object{"type": []string{"string", "null"}, "maxLength": service.MaxGitURL,
		"description": "The https or ssh address of the repository that the image clones, without a password or token, for an image with git. It cannot be changed later."}
	return of
}

// changeable are the fields of a workspace that a request may change.
func changeable() object {
	yesOrNo := func(about string) object { return object{"type": []string{"boolean", "null"}, "description": about} }
	return with(writable("name", desired), "favourite", yesOrNo("Whether it comes first on its owner's dashboard."))
}

var operations = []operation{
	{
		tag: "Workspaces", id: "listWorkspaces", summary: "Lists workspaces", status: 200, answer: v1.Page[v1.Workspace]{},
		about: "One page of the user's own workspaces, the newest first. With all=true, for administrators, those of all users, with owner_username.",
		params: []parameter{
			pageLimit, cursor,
			{"query", "sort", "The order; a minus before it reverses it.", object{"type": "string", "enum": orders()}},
			{"query", "phase", "One or several phases, with commas between them.", object{"type": "string", "pattern": phaseList, "examples": []string{"RUNNING", "RUNNING,STANDBY"}}},
			{"query", "q", "A text in the name, the description, the memo or the image, or the beginning of the id.", search(service.MaxSearch)},
			{"query", "deleted", "Those that can be undeleted.", boolean},
			{"query", "all", "Those of all users, for administrators.", boolean},
			{"query", "owner", "The name or the id of the user whose they are, with all=true.", search(service.MaxSearch)},
		},
		problems: []string{"forbidden"},
	},
	{
		tag: "Workspaces", id: "createWorkspace", summary: "Creates a workspace", body: fields(creatable()),
		about:  "It is to run, unless desired_state says otherwise. Repeated with the same Idempotency-Key it answers with the workspace that the first request has created.",
		params: []parameter{{"header", "Idempotency-Key", "A text of the client's choice, such as a UUID, at most 255 characters.", object{"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]*$"}}},
		status: 201, answer: v1.Workspace{}, problems: []string{"limit-reached", "too-many-workspaces", "deleted", "key-taken"},
	},
	{tag: "Workspaces", id: "getWorkspace", summary: "Reads a workspace", about: "One's own; administrators read that of any user. The ETag is for If-Match.", status: 200, answer: v1.Workspace{}},
	{
		tag: "Workspaces", id: "changeWorkspace", summary: "Changes a workspace", body: fields(changeable()),
		about:  "All of the given fields, or none. Another image applies from the next start on.",
		status: 200, answer: v1.Workspace{}, problems: []string{"operation-in-progress", "limit-reached"},
	},
	{
		tag: "Workspaces", id: "deleteWorkspace", summary: "Deletes a workspace",
		about: "It can be undeleted for a while.", status: 202, problems: []string{"operation-in-progress", "forbidden"},
		params: []parameter{{"query", "now", "Nothing is kept for that while: files that are nowhere else go at once, and archives with a collection. Owners can say it of a workspace that they have deleted already, administrators of any.", boolean}},
	},
	verb("startWorkspace", "Starts a workspace", "From its volume or its archive, or again where its image could not be pulled. The answer does not wait until it runs.", "limit-reached"),
	verb("sleepWorkspace", "Puts a workspace to sleep", "Its container is removed, and its volume stays."),
	verb("archiveWorkspace", "Archives a workspace", "Its files move to the object store, and its volume is removed."),
	{
		tag: "Workspaces", id: "keepAwake", summary: "Keeps a workspace awake", status: 200, answer: v1.Workspace{},
		about: "Also unused, from now on; 0 ends that. A workspace that dozes goes on.", problems: []string{"not-awake", "limit-reached"},
		body: fields(object{"!hours": object{"type": "number", "minimum": 0, "maximum": 8760}}),
	},
	{
		tag: "Workspaces", id: "execSocket", summary: "Runs a command with input, or in a terminal", status: 101,
		about:  "A WebSocket with the subprotocol v1.exec.codehub. Binary messages are a byte that names the channel, and bytes: 0 input, 1 output, 2 errors; 255 and 0 end the input. Text messages are JSON. The client's first is {\"command\": [...], \"stdin\": true, \"terminal\": {\"columns\": 80, \"rows\": 24, \"type\": \"xterm-256color\"}}, of which only command is needed; later ones are {\"terminal\": ...} with another size. The server's are {\"taken\": n}, how many further bytes of input the command has taken, of which at most 262,144 may be on the way, and in the end {\"exit_code\": n}, or {\"problem\": ...}. Input ends with the client, and a terminal hangs up then.",
		params: []parameter{ifMatch}, problems: []string{"upgrade-needed", "too-many-commands", "too-early"},
	},
	{
		tag: "Workspaces", id: "exec", summary: "Runs a command in a workspace that runs", status: 200, media: "application/x-ndjson", answer: "",
		about: "One JSON object a line, as the command prints: stdout or stderr, in the end exit_code, or problem when it is not known how the command ends. A workspace that dozes goes on first.",
		body:  fields(object{"!command": object{"type": "array", "minItems": 1, "maxItems": 1000, "prefixItems": []object{with(stored, "minLength", 1)}, "items": stored}}), problems: []string{"not-running", "too-many-commands", "limit-reached"},
	},
	{
		tag: "Workspaces", id: "workspaceLogs", summary: "Returns what a workspace has printed", status: 200, media: "text/plain", answer: "",
		about: "The last lines, of the owner's workspaces only; with follow the answer goes on until the container ends.",
		params: []parameter{
			{"query", "lines", "How many lines it begins with; 200 without it.", number(1, 10_000)},
			{"query", "follow", "Whether it goes on.", boolean},
		},
		problems: []string{"not-running", "too-many-streams", "engine-away"},
	},
	{
		tag: "Workspaces", id: "workspaceStats", summary: "Says what a running workspace uses", status: 200, answer: v1.Stats{},
		about: "What is not known is null. The workspace itself says which ports listen: while it dozes, none is known.", problems: []string{"not-running", "engine-away"},
	},
	{tag: "Workspaces", id: "explainWorkspace", summary: "Says why a workspace is as it is, and what comes next", about: "In codes and times for programs, and in the words of every language.", status: 200, answer: explain.Explanation{}},
	{
		tag: "Workspaces", id: "workspaceHistory", summary: "Lists what happened to a workspace, the newest first", about: "Its phases, operations and errors, and who asked for what.", status: 200, answer: v1.History[v1.Transition]{},
		params: []parameter{pageLimit, before},
	},
	{tag: "Archives", id: "listArchives", summary: "Lists the archives of a workspace, the newest first", about: "Those to which the workspace can go back: each with its size, its age and when it was last read back.", status: 200, answer: v1.List[v1.Archive]{}},
	{
		tag: "Archives", id: "restoreArchive", summary: "Goes back to an older archive", status: 202, answer: v1.Workspace{},
		about: "The present state is archived first. A workspace that dozes runs again afterwards, so it needs a place.", body: fields(object{"!archive": object{"type": "string", "minLength": 1, "description": "The key of the archive."}}),
		problems: []string{"archive-not-restorable", "operation-in-progress", "limit-reached"},
	},
	{tag: "Archives", id: "undeleteWorkspace", summary: "Undoes a deletion", about: "As long as undelete_until says. It comes back with its files and its address, in the state that it was in.", status: 200, answer: v1.Workspace{}, problems: []string{"collected", "operation-in-progress", "limit-reached"}},
	{
		tag: "Archives", id: "recoverWorkspace", summary: "Recovers a workspace that is in ERROR, for administrators", about: "The error is cleared, and the workspace is looked at again. Where something about its files is in doubt, the answer is 409 with what exists and what can be chosen.", body: choice(nil), optional: true,
		status: 200, answer: v1.Workspace{}, problems: []string{"choice-needed", "files-unknown"},
	},
	{
		tag: "Administration", id: "recoverWorkspaces", summary: "Recovers all workspaces that are in ERROR for one reason", about: "Each as POST /workspaces/{id}/recover does. The answer has the ids of those that were recovered, and a problem for each other one.",
		body: choice(object{
			"!reason": object{"type": "string", "enum": reasons()},
			"choice":  nullable(object{"type": "string", "enum": []any{"", string(workspace.RecoverRetry), string(workspace.RecoverVolume), string(workspace.RecoverEmpty)}}),
			"key":     nullable(object{"type": "string", "maxLength": 0, "description": "Empty: each has archives of its own."}),
		}), status: 200, answer: v1.Recoveries{}, problems: []string{"files-unknown"},
	},
	{
		tag: "Account", id: "signIn", summary: "Signs in with a password", body: fields(object{"!username": text, "!password": secret}),
		about: "The answer sets the cookie session.", status: 200, answer: v1.User{}, problems: []string{"bad-credentials", "too-many-attempts", "passwords-off"},
	},
	{tag: "Account", id: "signOut", summary: "Signs out", status: 200, answer: redirect{}, about: "204 where nothing is to be ended elsewhere."},
	{tag: "Account", id: "getSession", summary: "Says who is signed in", about: "The user whose cookie or access token the request has.", status: 200, answer: v1.User{}},
	{tag: "Account", id: "getMe", summary: "Says who is signed in", about: "The same as GET /auth/session.", status: 200, answer: v1.User{}},
	{
		tag: "Account", id: "changePassword", summary: "Changes one's own password", body: fields(object{"!present": secret, "!password": newSecret}),
		about: "Every other sign-in ends.", status: 204, problems: []string{"too-many-attempts", "passwords-off"},
	},
	{tag: "Account", id: "listSessions", summary: "Lists where one is signed in", about: "Each with its browser, its address and its times, the one of this request marked.", status: 200, answer: v1.List[v1.Session]{}},
	{tag: "Account", id: "endOtherSessions", summary: "Ends all other sign-ins", about: "All but the one of this request. Access tokens stay.", status: 204},
	{tag: "Account", id: "endSession", summary: "Ends a sign-in", about: "What is open with it ends, too. An access token ends with DELETE /tokens/{id}.", status: 204},
	{tag: "Account", id: "listTokens", summary: "Lists personal access tokens", about: "Without their secrets, which only the answer that made them had.", status: 200, answer: v1.List[v1.Token]{}},
	{
		tag: "Account", id: "createToken", summary: "Makes a personal access token", status: 201, answer: v1.NewToken{}, problems: []string{"too-many-tokens"},
		about: "Its secret is in this answer only.",
		body:  fields(object{"!name": with(name, "pattern", printable(auth.MaxTokenName)), "!scopes": object{"type": "array", "minItems": 1, "items": object{"type": "string", "enum": auth.Scopes()}}, "expires_in_days": nullable(number(1, auth.MaxTokenDays))}),
	},
	{tag: "Account", id: "revokeToken", summary: "Revokes a personal access token", about: "It is refused from then on, and what is open with it ends.", status: 204},
	{tag: "Account", id: "getLimits", summary: "Says how many workspaces one may run and have, and how many may doze", about: "Those of all users, or the user's own. Null means that there is no limit.", status: 200, answer: v1.Limits{}},
	{tag: "Account", id: "listImages", summary: "Lists the images that one may choose", about: "By the names that image_ref takes. Administrators may name any other image as well.", status: 200, answer: v1.Images{}},
	{tag: "Account", id: "getDescription", summary: "Returns this description", about: "Without a sign-in. It is the same on every server of this release.", status: 200, answer: map[string]string{}},
	{
		tag: "Events", id: "streamEvents", summary: "Streams the changes of one's workspaces", status: 200, media: "text/event-stream", answer: "", problems: []string{"too-many-streams"},
		about: "First workspace_updated for each workspace and a heartbeat; then workspace_updated with the whole workspace, workspace_deleted with its id, and a heartbeat every 30 seconds. " +
			"Every event has an id. With that of an earlier stream, only what has changed since comes first, and resumed in place of every heartbeat: what is not told is as before.",
		params: []parameter{{"header", "Last-Event-ID", "The id of the last event that was received; one that is not known gets the whole list.", text}},
	},
	{
		tag: "Administration", id: "listUsers", summary: "Lists the users by name", about: "One page, with the role, the limits and the number of workspaces of each.", status: 200, answer: v1.Page[v1.Account]{},
		params: []parameter{pageLimit, cursor, {"query", "q", "A text in the name.", search(255)}},
	},
	{
		tag: "Administration", id: "createUser", summary: "Adds a user", status: 201, answer: v1.Account{}, problems: []string{"user-exists", "token-scope"},
		about: "For administrators who are signed in: no access token adds a user.",
		body:  fields(object{"!username": object{"type": "string", "pattern": word(255), "description": "One visible word."}, "!password": newSecret, "role": nullable(role)}),
	},
	{tag: "Administration", id: "getOverview", summary: "Says how all workspaces are, who leads, how full the disk is, and how the archives are", about: "How many workspaces there are by their phase, operation and error, over all users.", status: 200, answer: v1.Overview{}},
	{
		tag: "Administration", id: "allHistory", summary: "Lists what happened to all workspaces, the newest first", about: "Phases, operations and errors of the workspaces of all users, with the names of their owners.", status: 200, answer: v1.History[v1.Event]{},
		params: []parameter{pageLimit, before},
	},
	{
		tag: "Administration", id: "readAudit", summary: "Lists who has asked for what, the newest first", status: 200, answer: v1.Page[v1.AuditEntry]{}, lines: true,
		about: "With format=jsonl, or Accept: application/x-ndjson, the answer is all entries of the filter, an object a line.",
		params: []parameter{
			{"query", "user", "The id or the name of the user who asked, or whom it concerns.", stored},
			{"query", "workspace", "The id of the workspace that it concerns.", object{"type": "string", "format": "uuid"}},
			{"query", "action", "The action, or its word before the dot for all of these.", object{"type": "string", "enum": actions()}},
			{"query", "since", "The earliest time.", timestamp},
			{"query", "until", "The first time that is too late.", timestamp},
			{"query", "format", "Pages as JSON, or all as JSON lines.", object{"type": "string", "enum": []any{"json", "jsonl"}}},
			pageLimit, cursor,
		},
	},
	{
		tag: "Administration", id: "report", summary: "Says how long all workspaces were awake, asleep and archived", status: 200, answer: v1.UsageReport{},
		about: "Of the last 30 days, unless other days of UTC are asked for.",
		params: []parameter{
			{"query", "user", "The id or the name of the user whose workspaces are meant.", stored}, firstDay, lastDay,
		},
	},
	{
		tag: "Workspaces", id: "ownReport", summary: "Says how long one's own workspaces were awake, asleep and archived", status: 200, answer: v1.UsageReport{},
		about:  "Of the last 30 days, unless other days of UTC are asked for.",
		params: []parameter{firstDay, lastDay},
	},
	{
		tag: "Account", id: "readOwnAudit", summary: "Lists one's own sign-ins, access tokens and other changes of the account, the newest first", about: "From where others have changed the account is left out.", status: 200, answer: v1.Page[v1.AuditEntry]{},
		params: []parameter{pageLimit, cursor},
	},
	{
		tag: "Administration", id: "collectArchives", summary: "Shows which archives no workspace needs, or deletes those that are due", status: 200, answer: v1.Collection{},
		about: "It lists at most 1000 archives, and may take minutes.", body: fields(object{"!dry_run": boolean}), problems: []string{"operation-in-progress"},
	},
	{
		tag: "Administration", id: "scrubArchives", summary: "Shows which archives there are to read back, or has all of them read now", status: 200, also: 202, answer: v1.Scrub{},
		about: "Reading may take hours. It begins within a minute, goes on in the process that leads, and takes no request twice. The overview tells how much is left, and what is damaged.",
		body:  fields(object{"!dry_run": boolean}),
	},
	{tag: "Administration", id: "getUser", summary: "Reads a user", about: "With the role, the limits and the number of workspaces.", status: 200, answer: v1.Account{}},
	{
		tag: "Administration", id: "changeUser", summary: "Changes a user", status: 200, answer: v1.Account{}, problems: []string{"own-account", "last-administrator", "token-scope"},
		about: "All of the given fields, or none. Another role or password, and disabling, end the user's sign-ins and access tokens. An access token changes limits only.",
		body: fields(object{"role": nullable(role), "disabled": nullable(boolean), "password": nullable(newSecret),
			"limits": nullable(fields(object{"max_running": limit, "max_workspaces": limit}))}),
	},
	{tag: "Administration", id: "signOutUser", summary: "Ends all sign-ins and access tokens of a user", status: 204,
		about: "For administrators who are signed in: no access token ends sign-ins.", problems: []string{"token-scope"}},
	{tag: "Administration", id: "unlockUser", summary: "Lets a user sign in again after too many wrong passwords", status: 204,
		about: "For administrators who are signed in: no access token does it. The password stays as it is.", problems: []string{"token-scope"}},
}

// verb is an operation that requests a desired state.
func verb(id, summary, about string, problems ...string) operation {
	return operation{
		tag: "Workspaces", id: id, summary: summary, about: about,
		status: 200, answer: v1.Workspace{}, problems: append([]string{"operation-in-progress"}, problems...),
	}
}

// redirect is the answer to signing out. Its type in package api is local to a function.
type redirect struct {
	// The address where the browser must also sign out.
	Redirect string `json:"redirect"`
}
