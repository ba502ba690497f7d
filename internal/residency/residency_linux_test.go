package residency

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestReadOnly(t *testing.T) {
	const exe = "/usr/bin/muster"
	for line, want := range map[string]string{
		"00400000-00401000 r-xp 00000000 08:01 12                         /usr/bin/muster": "400000-401000",
		"00401000-00409000 r--p 00001000 08:01 12                         /usr/bin/muster": "401000-409000",
		"00409000-0040a000 rw-p 00009000 08:01 12                         /usr/bin/muster": "",
		"7f0000000000-7f0000001000 r-xp 00000000 08:01 13                 /lib/libc.so.6":  "",
		"c000000000-c000400000 rw-p 00000000 00:00 0":                                      "",
		"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]":         "",
		"x-y r-xp 00000000 08:01 12                                       /usr/bin/muster": "",
		"": "",
	} {
		from, to, ok := readOnly(line, exe)
		got := ""
		if ok {
			got = fmt.Sprintf("%x-%x", from, to)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// fromFiles is how much of the process's memory holds parts of files, in kB.
func fromFiles(t *testing.T) (kb int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kb
}

func TestKeepGivesBackWhatTheStartNeeded(t *testing.T) {
	before := fromFiles(t)
	clk := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Keep(ctx, clk)
	}()
	for _, step := range []time.Duration{started, again} {
		for !clk.HasWaiters() {
			runtime.Gosched()
		}
		clk.Step(step)
	}
	for !clk.HasWaiters() {
		runtime.Gosched()
	}
	if after := fromFiles(t); after >= before {
		t.Errorf("%d kB of the program are in memory, as many as before (%d kB)", after, before)
	}
	cancel()
	<-ended
}
