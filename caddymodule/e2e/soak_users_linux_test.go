package e2e

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// soakFiles is the number of files that a user makes in a home besides the file with the lines.
const soakFiles = 8

// edit is the day of a user who works in a workspace: the user opens it, types, makes files, looks at them, closes the
// tab or leaves it open, and comes back after a while.
func (v *visitor) edit(ctx context.Context) {
	for v.pause(ctx, 0, 12*time.Second); ctx.Err() == nil; v.pause(ctx, time.Second, 25*time.Second) {
		if !v.open(ctx) {
			return
		}
		conn, err := v.dial(ctx)
		if err != nil {
			continue
		}
		for range 3 + v.random.IntN(12) {
			if err = v.write(ctx, func(command string) (string, error) { return v.run(ctx, conn, command) }); err != nil {
				break
			}
			v.pause(ctx, 100*time.Millisecond, 700*time.Millisecond)
		}
		if err == nil && v.random.IntN(3) == 0 {
			v.pause(ctx, time.Second, 12*time.Second) // the tab stays open
		}
		_ = conn.CloseNow()
		if verb := []string{"sleep", "archive", "", "", "", ""}[v.random.IntN(6)]; verb != "" {
			_, _, _ = v.send(ctx, "api", http.MethodPost, v.s.url("/api/v1/workspaces/"+v.home+"/"+verb), nil, nil)
		}
	}
}

// write writes a line to the home or, now and then, a whole file.
func (v *visitor) write(ctx context.Context, run func(command string) (string, error)) error {
	line := v.diary.Next()
	if v.random.IntN(15) == 0 && len(v.diary.Files()) < soakFiles {
		name := "file-" + line
		out, err := run(fmt.Sprintf("head -c %d /dev/urandom >%s && sha256sum %[2]s", 1+v.random.IntN(300_000), name))
		if sum, _, ok := strings.Cut(out, " "); err == nil && ok && len(sum) == 64 {
			v.diary.WrittenFile(name, sum)
		}
		return err
	}
	out, err := run("echo " + line + " >>diary && echo written")
	if err == nil && out == "written" {
		v.diary.Written(line)
	} else if err == nil && ctx.Err() == nil {
		v.s.problem("writing a line of %s was answered with %q", v.name, out)
	}
	return err
}

// check compares the files in the home with what the user has written.
func (v *visitor) check(ctx context.Context) error {
	if !v.open(ctx) {
		return fmt.Errorf("it does not show its page: %w", ctx.Err())
	}
	conn, err := v.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	content, err := v.run(ctx, conn, "touch diary; cat diary")
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for _, name := range v.diary.Files() {
		out, err := v.run(ctx, conn, "sha256sum "+name)
		if err != nil {
			return err
		}
		sums[name], _, _ = strings.Cut(out, " ")
	}
	return v.diary.Check(content, sums)
}

// program plays a program of the user, which requests something from the workspace now and then, with an access token.
// Its request waits while the workspace wakes.
func (v *visitor) program(ctx context.Context) {
	p := v.companion("a program")
	p.http = newHTTPClient(nil)
	p.http.Timeout = soakRequest
	defer p.leave()
	for p.pause(ctx, 0, 20*time.Second); ctx.Err() == nil; p.pause(ctx, 5*time.Second, 60*time.Second) {
		began := time.Now()
		res, body, err := p.send(ctx, "programs", http.MethodGet, p.s.url("/w/"+p.home+"/kilobyte"), p.bearer(), nil)
		if err == nil && res.StatusCode == http.StatusOK {
			if len(body) != 1<<10 {
				p.s.problem("a program got %d bytes", len(body))
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				p.s.rec.Count("wakes/by programs")
			}
		}
	}
}

// companion returns a second actor for the same user. It makes its own random choices, which depend on its name.
func (v *visitor) companion(what string) *visitor {
	name, hash := what+" of "+v.name, fnv.New64()
	_, _ = io.WriteString(hash, name)
	random := rand.New(rand.NewPCG(v.s.seed, hash.Sum64()))
	return &visitor{s: v.s, name: name, random: random, http: v.http, token: v.token, home: v.home}
}

// watch follows the user's events, and resumes where the stream broke.
func (v *visitor) watch(ctx context.Context) {
	last, w := "", v.companion("a tab")
	for ctx.Err() == nil {
		w.pause(ctx, 0, 3*time.Second)
		limited, cancel := context.WithTimeout(ctx, 5*time.Second+time.Duration(w.random.Int64N(int64(25*time.Second))))
		w.follow(limited, &last)
		cancel()
	}
}

func (v *visitor) follow(ctx context.Context, last *string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.s.url("/api/v1/events"), nil)
	if err != nil {
		v.s.problem("%v", err)
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	if *last != "" {
		req.Header.Set("Last-Event-ID", *last)
	}
	v.s.rec.Count("requests/streams")
	res, err := v.http.Do(req)
	if err != nil {
		return // it ends by its time, or its server has ended
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		v.s.failedNow(v.name, fmt.Sprint(res.StatusCode), "at its events")
		return
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			*last = id
			v.s.rec.Count("events/received")
		}
	}
}

// keep is the day of a user who has many sleeping workspaces: the user lists and renames them, creates new ones and
// deletes some. names contains the names of the user's workspaces, by id.
func (v *visitor) keep(ctx context.Context, names map[string]string) {
	for v.pause(ctx, 0, 5*time.Second); ctx.Err() == nil; v.pause(ctx, 2*time.Second, 10*time.Second) {
		switch id := anyKey(v, names); {
		case id == "" || len(names) < soakSleeping/2 || v.random.IntN(12) == 0:
			v.make(ctx, names)
		case v.random.IntN(12) == 0:
			if v.until(ctx, http.MethodDelete, "/api/v1/workspaces/"+id, nil, nil, nil, http.StatusAccepted, http.StatusNotFound) {
				delete(names, id)
				v.s.deleted.Add(1)
			} else {
				v.doubt(names, id)
			}
		case v.random.IntN(2) == 0:
			name := fmt.Sprintf("renamed %d", v.random.IntN(1_000_000))
			if v.until(ctx, http.MethodPatch, "/api/v1/workspaces/"+id, nil, map[string]string{"name": name}, nil, http.StatusOK) {
				names[id] = name
			} else {
				v.doubt(names, id)
			}
		default:
			_, _, _ = v.send(ctx, "api", http.MethodGet, v.s.url("/api/v1/workspaces?limit=20"), nil, nil)
		}
	}
}

// doubt records that the user left before the answer to a change came. The workspace may be in the state before or
// after the change.
func (v *visitor) doubt(names map[string]string, id string) {
	delete(names, id)
	v.s.doubted.Store(id, true)
}

func anyKey(v *visitor, names map[string]string) string {
	if len(names) == 0 {
		return ""
	}
	n := v.random.IntN(len(names))
	for id := range names {
		if n--; n < 0 {
			return id
		}
	}
	return ""
}

// make creates a sleeping workspace. The key makes sure that a repeated request, whose first answer was lost, creates
// it only once.
func (v *visitor) make(ctx context.Context, names map[string]string) {
	v.typed++
	name := fmt.Sprintf("asleep %d", v.typed)
	var made workspace
	// The user does not leave before the creation is certain.
	certain, cancel := context.WithTimeout(context.WithoutCancel(ctx), soakCertain)
	defer cancel()
	if v.until(certain, http.MethodPost, "/api/v1/workspaces", http.Header{"Idempotency-Key": {fmt.Sprintf("%s-%d", v.name, v.typed)}},
		map[string]string{"name": name, "desired_state": "ARCHIVED"}, &made, http.StatusCreated, http.StatusOK) {
		names[made.ID] = name
		v.s.created.Add(1)
	} else {
		v.s.problem("%s could not create a workspace in %s", v.name, soakCertain)
	}
}

// signIn signs the user in and makes a token for programs.
func (v *visitor) signIn(ctx context.Context) bool {
	var token struct{ Token string }
	ok := v.until(ctx, http.MethodPost, "/api/v1/auth/login", nil, map[string]string{"username": v.name, "password": userPassword}, nil, http.StatusOK) &&
		v.until(ctx, http.MethodPost, "/api/v1/tokens", nil,
			map[string]any{"name": "program", "scopes": []string{"read", "write", "workspace"}}, &token, http.StatusCreated)
	v.token = token.Token
	return ok
}

// phases returns the phases and the names of the user's workspaces, by id.
func (v *visitor) phases(ctx context.Context) (phases, names map[string]string, ok bool) {
	phases, names = map[string]string{}, map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				workspace
				Name    string         `json:"name"`
				Waiting map[string]any `json:"waiting"`
			} `json:"items"`
			Next *string `json:"next_cursor"`
		}
		if !v.until(ctx, http.MethodGet, "/api/v1/workspaces?limit=500"+cursor, nil, nil, &page, http.StatusOK) {
			return nil, nil, false
		}
		for _, w := range page.Items {
			names[w.ID], phases[w.ID] = w.Name, w.Phase
			switch {
			case w.Operation != "NONE":
				phases[w.ID] += " " + w.Operation
			case w.Phase == "ERROR":
				phases[w.ID] += fmt.Sprintf(" %s %s", w.ErrorReason, w.ErrorMessage)
			case w.Waiting != nil:
				phases[w.ID] += fmt.Sprintf(" waits for %v", w.Waiting)
			}
		}
		if page.Next == nil {
			return phases, names, true
		}
		cursor = "&cursor=" + *page.Next
	}
}
