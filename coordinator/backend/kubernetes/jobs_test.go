package kubernetes

import "testing"

func TestSeparate(t *testing.T) {
	reports, messages := separate([]byte("a warning\n{\"event\":\"progress\",\"bytes\":1}\n{\"not\":1}\n{\"event\":\"result\",\"ok\":true}\nlast words"))
	if got := string(reports); got != "{\"event\":\"progress\",\"bytes\":1}\n{\"event\":\"result\",\"ok\":true}\n" {
		t.Errorf("reports %q", got)
	}
	if got := string(messages); got != "a warning\n{\"not\":1}\nlast words" {
		t.Errorf("messages %q", got)
	}
}
