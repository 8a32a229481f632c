package spec

import (
	"strings"
	"testing"
)

func TestValidateReportsEverything(t *testing.T) {
	err := Options{Installation: "Not Good", Host: "nowhere", Image: "A B", Port: 70000, Network: "host", JobNetwork: "none",
		Publish: "world", MemoryBytes: 1, PidsLimit: -1}.Validate()
	if err == nil {
		t.Fatal("the options were accepted")
	}
	for _, setting := range []string{"installation", "docker host", "docker workspace_image", "docker workspace_port",
		"docker network", "docker job_network", "docker publish", "docker memory", "docker pids"} {
		if !strings.Contains(err.Error(), setting+":") {
			t.Errorf("%q is not named in:\n%v", setting, err)
		}
	}
	for _, o := range []Options{
		{Installation: "codehub", Image: "codercom/code-server:4.139.1"},
		{Installation: "a", Host: "tcp://10.0.0.1:2375", Image: "x", JobNetwork: "host", Publish: PublishLoopback, Network: "mine"},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
