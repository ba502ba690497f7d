package fleet

import (
	"os/exec"
	"testing"
)

func TestReadyLine(t *testing.T) {
	for _, tc := range []struct{ name, log, want string }{
		{"a hub", "level=INFO msg=x\nhub ready https://127.0.0.1:1 kubeconfig /a\n", "https://127.0.0.1:1"},
		{"a cluster", "cluster ready https://127.0.0.1:2 kubeconfig /a b/c\nmore\n", "https://127.0.0.1:2"},
		{"half a line", "hub ready https://127.0.0.1:1 kubeconfig /a", ""},
		{"something alike", "msg=\"not ready\" x y z\nhub is ready now kubeconfig\n", ""},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := readyLine([]byte(tc.log)); got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %t, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestWhyEnded(t *testing.T) {
	exit := exec.Command("sh", "-c", "exit 3").Run()
	for _, tc := range []struct {
		name, log string
		exit      error
		want      string
	}{
		{"its own words", "starting\nError: no room\n", exit, "no room"},
		{"a crash", "panic: oops\n\ngoroutine 1\n", exit, "it ended with exit status 3: goroutine 1"},
		{"silence", "", exit, "it ended with exit status 3"},
		{"an early end", "", nil, "it ended by itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := whyEnded([]byte(tc.log), tc.exit); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
