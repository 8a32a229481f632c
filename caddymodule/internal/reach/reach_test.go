package reach_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/reach"
)

// TestOnlyTheSameDatabaseAsksAndAnswers checks that each side rejects another database, and a missing one.
func TestOnlyTheSameDatabaseAsksAndAnswers(t *testing.T) {
	asked := reach.Ask("ours")
	heard, ok := reach.Parse(asked.String(), "ours")
	if !ok || !asked.Proves(reach.Answer{Proof: heard.Proof()}) {
		t.Errorf("%q is not understood", asked)
	}
	if reach.Ask("ours").String() == asked.String() {
		t.Error("a question is asked twice")
	}
	nonce, signature, _ := strings.Cut(asked.String(), ".")
	for _, header := range []string{"", ".", nonce, nonce + ".", "." + signature, nonce + "." + nonce, nonce[2:] + "." + signature,
		strings.ToUpper(asked.String()), reach.Ask("theirs").String(), nonce + "." + heard.Proof()} {
		if _, ok := reach.Parse(header, "ours"); ok {
			t.Errorf("%q passes for a question of the same database", header)
		}
	}
	if _, ok := reach.Parse(reach.Ask("").String(), ""); ok {
		t.Error("a gateway without a database answers")
	}
	theirs, _ := reach.Parse(reach.Ask("theirs").String(), "theirs")
	for _, proof := range []string{"", signature, theirs.Proof()} {
		if asked.Proves(reach.Answer{Proof: proof}) {
			t.Errorf("%q passes for an answer of the same database", proof)
		}
	}
	if (reach.Question{}).Proves(reach.Answer{}) {
		t.Error("the zero question proves something")
	}
}
