package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// memory is what a process has in memory, in megabytes. What is resident says
// little: it counts every page of the program and of the store's file that was
// ever read, which the kernel takes back as soon as something else needs room.
type memory struct {
	// anonymous is what no file holds, such as heap and stacks: RssAnon of
	// /proc/PID/status. Only the process itself can give it back.
	anonymous float64
	// workingSet is that and the pages of files that were used while the process
	// was observed. kubelet counts alike: it leaves out a container's inactive file
	// pages.
	workingSet float64
}

func (m memory) String() string {
	return fmt.Sprintf("%8.1f MB anonymous, %.1f MB working set", m.anonymous, m.workingSet)
}

// observe lets the process be for a while and returns what it then has in memory.
func (p *process) observe(d time.Duration) (memory, error) {
	// From here on Linux notes which pages of files are used.
	if err := os.WriteFile(p.proc("clear_refs"), []byte("3"), 0); err != nil {
		return memory{}, fmt.Errorf("observe the memory of process %d: %w", p.cmd.Process.Pid, err)
	}
	time.Sleep(d)
	smaps, err := os.ReadFile(p.proc("smaps"))
	if err != nil {
		return memory{}, err
	}
	m := memory{anonymous: p.anonymous()}
	m.workingSet = m.anonymous + usedOfFiles(string(smaps))
	return m, nil
}

// anonymous is the process's anonymous memory in megabytes.
func (p *process) anonymous() float64 {
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := kilobytes(line, "RssAnon:"); ok {
			return mb(kb * 1024)
		}
	}
	return 0
}

func (p *process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// usedOfFiles is the size, in megabytes, of the pages of files that were used, of
// a process's mappings as /proc/PID/smaps lists them.
func usedOfFiles(smaps string) float64 {
	var used int64
	file := false
	for line := range strings.Lines(smaps) {
		if first, _, _ := strings.Cut(line, " "); !strings.HasSuffix(first, ":") { // the head of a mapping
			fields := strings.Fields(line)
			file = len(fields) > 5 && strings.HasPrefix(fields[5], "/")
			continue
		}
		if kb, ok := kilobytes(line, "Referenced:"); ok && file {
			used += kb
		}
		// Pages of the program that were written to are no file's any longer.
		if kb, ok := kilobytes(line, "Anonymous:"); ok && file {
			used -= kb
		}
	}
	return max(0, mb(used*1024))
}

// kilobytes is the number in a line such as "RssAnon:   1234 kB".
func kilobytes(line, name string) (kb int64, ok bool) {
	rest, ok := strings.CutPrefix(line, name)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscan(rest, &kb)
	return kb, err == nil
}
