package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/reach"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/wait"
)

// withDatabase returns options for a gateway whose database has that identity, and that trusts one proxy.
func withDatabase(identity string) func(*api.Options) {
	return func(o *api.Options) {
		o.Database = func() string { return identity }
		o.Site = site.New(site.Options{MainHost: apitest.Host, Trusted: func(r *http.Request) bool { return r.Header.Get("X-Test-Proxy") != "" }})
		o.ClientAddress = func(*http.Request) string { return "192.0.2.7" }
	}
}

// asks returns the question that a doctor asks, and the header line that carries it.
func asks(identity string) (q reach.Question, header string) {
	q = reach.Ask(identity)
	return q, reach.Header + ": " + q.String()
}

// TestADoctorLearnsWhatArrives: the gateway tells its own doctor how a request arrived, and sets a cookie in the same
// way as it sets a session cookie.
func TestADoctorLearnsWhatArrives(t *testing.T) {
	in := newHarness(t, withDatabase("ours"))
	direct := reach.Answer{Client: "192.0.2.7", Scheme: "http", Host: apitest.Host, Main: true, Forwarded: reach.ForwardedNot}
	for what, row := range map[string]struct {
		host   string
		header []string
		want   func(*reach.Answer)
	}{
		"directly":        {apitest.Host, nil, func(*reach.Answer) {}},
		"at another host": {"other.example", nil, func(a *reach.Answer) { a.Host, a.Main = "other.example", false }},
		"a trusted proxy": {apitest.Host, []string{"X-Test-Proxy: 1", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https"}, func(a *reach.Answer) {
			a.Scheme, a.Forwarded = "https", reach.ForwardedTrusted
		}},
		"its host": {"inside:1", []string{"X-Test-Proxy: 1", "X-Forwarded-Host: " + apitest.Host}, func(a *reach.Answer) {
			a.Forwarded = reach.ForwardedTrusted
		}},
		"any proxy's client": {apitest.Host, []string{"X-Forwarded-For: 192.0.2.8"}, func(a *reach.Answer) { a.Forwarded = reach.ForwardedUntrusted }},
		"any proxy's scheme": {apitest.Host, []string{"X-Forwarded-Proto: https"}, func(a *reach.Answer) { a.Forwarded = reach.ForwardedUntrusted }},
		"any proxy's host": {apitest.Host, []string{"X-Forwarded-Host: evil.example"}, func(a *reach.Answer) {
			a.Forwarded = reach.ForwardedUntrusted
		}},
	} {
		c := in.anyone()
		c.Host = row.host
		q, header := asks("ours")
		a := c.Do("GET", reach.Path, nil, append(row.header, header)...)
		var got reach.Answer
		if err := json.Unmarshal(a.Text, &got); err != nil || a.StatusCode != 200 || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: status %d, %v: %s", what, a.StatusCode, err, a.Text)
		}
		if !q.Proves(got) {
			t.Errorf("%s: %q proves nothing", what, got.Proof)
		}
		want := direct
		row.want(&want)
		if want.Proof = got.Proof; got != want {
			t.Errorf("%s: it answers %+v, want %+v", what, got, want)
		}
		if cookies := a.Cookies(); len(cookies) != 1 || cookies[0].Name != reach.Cookie || cookies[0].Secure != (got.Scheme == "https") || !cookies[0].HttpOnly ||
			cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Path != "/" || cookies[0].Domain != "" || cookies[0].MaxAge <= 0 {
			t.Errorf("%s: cookies %v", what, cookies)
		}
	}
}

// TestOnlyTheDoctorLearnsWhatArrives: a client that does not know the identity of the database gets the same answer as
// at a path that does not exist.
func TestOnlyTheDoctorLearnsWhatArrives(t *testing.T) {
	in := newHarness(t, withDatabase("ours"))
	_, theirs := asks("theirs")
	_, nobody := asks("")
	q, _ := asks("ours")
	for who, header := range map[string][]string{
		"somebody": nil, "another installation's": {theirs}, "one without a database": {nobody}, "one that guesses": {reach.Header + ": " + q.Proof()},
	} {
		for _, way := range [][]string{nil, {"Accept: text/event-stream"}, {"Upgrade: websocket", "Connection: Upgrade"}} {
			a := in.anyone().Do("GET", reach.Path, nil, append(way, header...)...)
			if a.StatusCode != 404 || len(a.Cookies()) != 0 {
				t.Errorf("%s: status %d, cookies %v: %s", who, a.StatusCode, a.Cookies(), a.Text)
			}
		}
	}
	// A gateway that has not reached its database yet cannot recognize its doctor.
	for _, identity := range []string{"", "ours"} {
		_, header := asks(identity)
		if a := in.another().anyone().Do("GET", reach.Path, nil, header); a.StatusCode != 404 {
			t.Errorf("a gateway without a database: status %d: %s", a.StatusCode, a.Text)
		}
	}
}

// TestADoctorsStream: the event of the stream arrives immediately, and the stream stays open after it. So the doctor
// notices a proxy that buffers answers. It ends with this configuration.
func TestADoctorsStream(t *testing.T) {
	stopping := make(chan struct{})
	in := newHarness(t, withDatabase("ours"), func(o *api.Options) { o.Stopping = stopping })
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	q, header := asks("ours")
	res := in.anyone().Open(ctx, "GET", reach.Path, nil, header, "Accept: text/event-stream")
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" || len(res.Cookies()) != 1 {
		t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	r := &eventReader{t: t, buf: bufio.NewReader(res.Body)}
	e, ok := r.next()
	if proof, _ := e.data["proof"].(string); !ok || !q.Proves(reach.Answer{Proof: proof}) {
		t.Errorf("the event is %+v", e)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if e, more := r.next(); more {
			t.Errorf("a second event: %+v", e)
		}
	}()
	in.anyone().Do("GET", "/health", nil) // longer than an answer that ends with its event would take
	select {
	case <-ended:
		t.Error("the stream ends after its event")
	default:
	}
	close(stopping)
	<-ended
}

// A WebSocket has the answer as its only message.
func TestADoctorsSocket(t *testing.T) {
	in := newHarness(t, withDatabase("ours"))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	c := in.anyone()
	q, _ := asks("ours")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }}
	conn, _, err := websocket.Dial(ctx, "http://"+c.Host+reach.Path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{reach.Header: {q.String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	var a reach.Answer
	if err := wsjson.Read(ctx, conn, &a); err != nil || !q.Proves(a) || a.Host != apitest.Host || !a.Main {
		t.Errorf("it says %+v, %v", a, err)
	}
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after that: %v", err)
	}
}
