package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const (
	passing = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestQuick"}
{"Action":"output","Package":"m/a","Test":"TestQuick","Output":"chatter of a test\n"}
{"Action":"pass","Package":"m/a","Test":"TestQuick","Elapsed":0.5}
{"Action":"pass","Package":"m/a","Test":"TestSlow/part","Elapsed":7}
{"Action":"pass","Package":"m/a","Test":"TestSlow","Elapsed":7}
{"Action":"output","Package":"m/a","Output":"chatter of the package\n"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"5 of 5 refused\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t8.1s\n"}
{"Action":"pass","Package":"m/a","Elapsed":8.1}
`
	failing = `{"Action":"output","Package":"m/b","Test":"TestGood","Output":"chatter of a test\n"}
{"Action":"pass","Package":"m/b","Test":"TestGood","Elapsed":0.1}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"    b_test.go:7: got 1\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.20s)\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad","Elapsed":0.2}
{"Action":"output","Package":"m/b","Output":"FAIL\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.3s\n"}
{"Action":"fail","Package":"m/b","Elapsed":0.3}
`
	// A test that panics, or that takes too long, never ends.
	panicking = `{"Action":"output","Package":"m/c","Test":"TestPanic","Output":"panic: no\n"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c\t0.1s\n"}
{"Action":"fail","Package":"m/c","Elapsed":0.1}
`
	broken = `{"ImportPath":"m/d [m/d.test]","Action":"build-output","Output":"d.go:1: undefined: x\n"}
{"ImportPath":"m/d [m/d.test]","Action":"build-fail"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d [build failed]\n"}
{"Action":"fail","Package":"m/d","Elapsed":0,"FailedBuild":"m/d [m/d.test]"}
`
	// The tests were killed.
	unfinished = `{"Action":"output","Package":"m/e","Test":"TestKilled","Output":"=== RUN   TestKilled\n"}
`
)

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name, events string
		want, not    []string
		fails        string
	}{
		{
			name: "what passes is quiet, but for what the package says after its tests", events: passing,
			want: []string{"5 of 5 refused\n", "     8.1s  m/a\n", "     7.0s  m/a TestSlow\n     0.5s  m/a TestQuick\n"},
			not:  []string{"chatter", "TestSlow/part"},
		},
		{
			name: "what fails is shown, and closes the list", events: failing + passing,
			want:  []string{"    b_test.go:7: got 1\n--- FAIL: TestBad (0.20s)\nFAIL\n", "\nok  \tm/a\t8.1s\nFAIL\tm/b\t0.3s\n"},
			not:   []string{"chatter"},
			fails: "1 of 2 packages failed",
		},
		{
			name: "a panic", events: panicking,
			want: []string{"panic: no\n"}, fails: "1 of 1 packages failed",
		},
		{
			name: "what does not compile", events: broken,
			want: []string{"d.go:1: undefined: x\n", "FAIL\tm/d [build failed]\n"}, fails: "1 of 1 packages failed",
		},
		{
			name: "tests that are killed", events: passing + unfinished,
			want: []string{"=== RUN   TestKilled\n", "FAIL\tm/e\n"}, fails: "1 of 2 packages failed",
		},
		{
			name: "lines that are no events", events: "go: no such package\n" + passing,
			want: []string{"go: no such package\n"},
		},
		{name: "nothing", fails: "no tests have run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, progress bytes.Buffer
			r := newReport(&out, &progress)
			if err := r.read(strings.NewReader(test.events)); err != nil {
				t.Fatal(err)
			}
			message := ""
			if err := r.close(); err != nil {
				message = err.Error()
			}
			if message != test.fails {
				t.Errorf("it fails with %q, want %q", message, test.fails)
			}
			for _, text := range test.want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("the report lacks %q:\n%s", text, out.String())
				}
			}
			for _, text := range test.not {
				if strings.Contains(out.String(), text) {
					t.Errorf("the report has %q:\n%s", text, out.String())
				}
			}
		})
	}
}

func TestTheSlowestAreTen(t *testing.T) {
	var events strings.Builder
	for i := range 12 {
		fmt.Fprintf(&events, "{\"Action\":\"pass\",\"Package\":\"m/p%d\",\"Elapsed\":%d}\n", i, i)
	}
	var out bytes.Buffer
	r := newReport(&out, &bytes.Buffer{})
	if err := r.read(strings.NewReader(events.String())); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "m/p2\n") || strings.Contains(out.String(), "m/p1\n") {
		t.Error(out.String())
	}
}
