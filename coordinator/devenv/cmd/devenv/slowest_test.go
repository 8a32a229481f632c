package main

import (
	"strings"
	"testing"
)

func TestSlowest(t *testing.T) {
	const events = `{"Action":"pass","Package":"github.com/codehub/gateway/a","Test":"TestOne/sub","Elapsed":20}
{"Action":"pass","Package":"github.com/codehub/gateway/a","Test":"TestOne","Elapsed":30.4}
{"Action":"fail","Package":"github.com/codehub/gateway/a","Test":"TestOneMore","Elapsed":41}
{"Action":"pass","Package":"github.com/codehub/gateway/a","Test":"TestLanes","Elapsed":0.01}
{"Action":"pass","Package":"github.com/codehub/gateway/a","Test":"TestLanes/1","Elapsed":12}
{"Action":"pass","Package":"github.com/codehub/gateway/a","Test":"TestQuick","Elapsed":9}
{"Action":"fail","Package":"github.com/codehub/gateway/a","Elapsed":100}
{"Action":"skip","Package":"github.com/codehub/gateway/b","Elapsed":0}
`
	var out strings.Builder
	if err := printSlowest(&out, strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	const want = `
SLOWEST PACKAGES  
100 s             a

SLOWEST TESTS  
41 s           a TestOneMore
30 s           a TestOne
12 s           a TestLanes/1
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := printSlowest(&out, strings.NewReader(`{"Package":"p","Elapsed":2}`)); err != nil || out.String() != "" {
		t.Errorf("of quick tests it prints %q, %v", out.String(), err)
	}
}
