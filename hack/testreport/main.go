// Command testreport prints what `go test -json` reports as `go test` would: the
// output of what failed, and a line for each package. It ends on the slowest packages
// and tests, and on the packages' lines once more. It fails when a package failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// slowest is how many packages and tests are listed.
const slowest = 10

func main() {
	r := newReport(os.Stdout, os.Stderr)
	err := r.read(os.Stdin)
	if err := errors.Join(err, r.close()); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	// ImportPath names the package of a build's output.
	ImportPath string
	// Elapsed is in seconds.
	Elapsed float64
}

// run is one run of a package's tests. With and without the race detector there are
// two of one package, one after the other.
type run struct {
	// output is what the package and its tests have printed, in that order, without
	// tests that have passed.
	output []event
	// result are the lines with which go test closes a package.
	result []string
}

type timing struct {
	name    string
	elapsed float64
}

type report struct {
	out, progress io.Writer
	runs          map[string]*run
	// finished are the closing lines of the packages that are done, failures apart.
	finished, failed []string
	packages, tests  []timing
}

// newReport writes failures and the summary to out, and to progress a line for each
// package when it is done.
func newReport(out, progress io.Writer) *report {
	return &report{out: out, progress: progress, runs: map[string]*run{}}
}

// read takes events until they end. Lines that are no events are passed on.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil:
			_, _ = fmt.Fprintln(r.out, strings.TrimSuffix(line, "\n"))
		default:
			r.add(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	name := strings.SplitN(cmp.Or(e.Package, e.ImportPath), " ", 2)[0]
	of := r.runs[name]
	if of == nil {
		of = &run{}
		r.runs[name] = of
	}
	switch e.Action {
	case "output", "build-output":
		of.output = append(of.output, e)
		if e.Test == "" && isResult(e.Output) {
			of.result = append(of.result, e.Output)
		}
	case "pass", "skip", "fail":
		if e.Test == "" {
			delete(r.runs, name)
			r.end(of, name, e)
			return
		}
		if !strings.Contains(e.Test, "/") {
			r.tests = append(r.tests, timing{name + " " + e.Test, e.Elapsed})
		}
		if e.Action != "fail" {
			of.output = slices.DeleteFunc(of.output, func(o event) bool { return o.Test == e.Test })
		}
	}
}

// isResult finds the lines in which go test says how a package went.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")
}

// end closes a run. Of one that has passed, only what the package itself has printed
// after its tests is shown, such as counts.
func (r *report) end(of *run, name string, e event) {
	if e.Action == "fail" {
		for _, o := range of.output {
			_, _ = fmt.Fprint(r.out, o.Output)
		}
		r.failed = append(r.failed, cmp.Or(strings.Join(of.result, ""), "FAIL\t"+name+"\n"))
	} else {
		if at := slices.IndexFunc(of.output, func(o event) bool { return o.Output == "PASS\n" }); at >= 0 {
			for _, o := range of.output[at+1:] {
				if !isResult(o.Output) {
					_, _ = fmt.Fprint(r.out, o.Output)
				}
			}
		}
		r.finished = append(r.finished, of.result...)
		_, _ = fmt.Fprint(r.progress, strings.Join(of.result, ""))
	}
	r.packages = append(r.packages, timing{name, e.Elapsed})
}

// close prints the summary. It fails when a package failed, when one never ended, and
// when there was none.
func (r *report) close() error {
	for name, of := range r.runs {
		if len(of.output) > 0 {
			r.end(of, name, event{Action: "fail"})
		}
	}
	r.list("packages", r.packages)
	r.list("tests", r.tests)
	_, _ = fmt.Fprintf(r.out, "\n%s%s", strings.Join(r.finished, ""), strings.Join(r.failed, ""))
	switch {
	case len(r.failed) > 0:
		return fmt.Errorf("%d of %d packages failed", len(r.failed), len(r.packages))
	case len(r.packages) == 0:
		return errors.New("no tests have run")
	}
	return nil
}

// list prints the slowest of what was timed.
func (r *report) list(what string, timings []timing) {
	slices.SortStableFunc(timings, func(a, b timing) int { return cmp.Compare(b.elapsed, a.elapsed) })
	_, _ = fmt.Fprintf(r.out, "\nslowest %s:\n", what)
	for _, t := range timings[:min(slowest, len(timings))] {
		_, _ = fmt.Fprintf(r.out, "%8.1fs  %s\n", t.elapsed, t.name)
	}
}
