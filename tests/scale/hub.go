package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// process is a running hub, dev cluster or agent.
type process struct{ *testhub.Process }

// server is an API server to measure, with a client of its administrator.
type server struct {
	process
	config *rest.Config
	client client.WithWatch
	ready  time.Duration // from exec to when it was ready
	// ownReads is how many reads of the benchmark the server has counted.
	ownReads float64
}

// startHub starts a hub whose state is in a folder.
func startHub(muster, dir string, flags ...string) (*server, error) {
	begin := time.Now()
	p, err := testhub.StartHub(muster, filepath.Join(dir, "hub"), flags...)
	if err != nil {
		return nil, err
	}
	return connect(p, time.Since(begin))
}

// withHub does something with a hub of its own.
func withHub(muster string, do func(h *server) error, flags ...string) error {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h, err := startHub(muster, dir, flags...)
	if err != nil {
		return err
	}
	defer func() { _ = h.Stop() }()
	return do(h)
}

func connect(p *testhub.Process, ready time.Duration) (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, "muster-bench"
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	return &server{process: process{p}, config: config, client: c, ready: ready}, err
}

// agent is a client with the rights of a cluster's agent.
func (s *server) agent(name string) (client.Client, error) {
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: cluster.CommonName(name, "bench"), Groups: []string{cluster.Group(name), cluster.ManagedClustersGroup},
	}
	return client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
}

// cpu is the CPU time that the process has used, in clock ticks of 10 ms.
func (p process) cpu() time.Duration {
	of, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0
	}
	stat, err := of.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// anonymous is the process's anonymous memory in megabytes: what no file holds, such as
// heap and stacks. Only the process itself can give it back.
func (p process) anonymous() float64 {
	of, err := procfs.NewProc(p.PID())
	if err != nil {
		return 0
	}
	status, err := of.NewStatus()
	if err != nil {
		return 0
	}
	return mb(int64(status.RssAnon)) //nolint:gosec // no process is as large
}

// observe lets the process be for a while and returns what it then has in memory. What
// is resident says little: it counts every page of the program and of the store's file
// that was ever read, which the kernel takes back as soon as something else needs room.
// So it is the anonymous memory, and beside it the pages of files that were used
// meanwhile. kubelet counts alike: it leaves out a container's inactive file pages.
func (p process) observe(d time.Duration) (string, error) {
	proc := fmt.Sprintf("/proc/%d/", p.PID())
	// From here on Linux notes which pages of files are used.
	if err := os.WriteFile(proc+"clear_refs", []byte("3"), 0); err != nil {
		return "", fmt.Errorf("observe the memory of process %d: %w", p.PID(), err)
	}
	time.Sleep(d)
	smaps, err := os.ReadFile(proc + "smaps")
	if err != nil {
		return "", err
	}
	anonymous := p.anonymous()
	return fmt.Sprintf("%8.1f MB anonymous, %.1f MB working set", anonymous, anonymous+usedOfFiles(string(smaps))), nil
}

// usedOfFiles is the size, in megabytes, of the pages of files that were used, of
// a process's mappings as /proc/PID/smaps lists them.
func usedOfFiles(smaps string) float64 {
	var used int64
	file := false
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		var kb int64
		switch fields[0] {
		case "Referenced:":
			_, _ = fmt.Sscan(fields[1], &kb)
		case "Anonymous:": // pages of the program that were written to are no file's any longer
			_, _ = fmt.Sscan("-"+fields[1], &kb)
		default:
			if !strings.HasSuffix(fields[0], ":") { // the head of a mapping
				file = len(fields) > 5 && strings.HasPrefix(fields[5], "/")
			}
		}
		if file {
			used += kb
		}
	}
	return max(0, mb(used*1024))
}

func mb(bytes int64) float64     { return float64(bytes) / 1e6 }
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func say(what, format string, args ...any) {
	fmt.Printf("%-48s %s\n", what, fmt.Sprintf(format, args...))
}

// request is what is counted together.
type request struct{ verb, resource, code string }

func (r request) isWrite() bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, r.verb)
}

// usage is what a server has done: the sums of the requests that it has counted, and the
// requests of each kind. Watches are not counted: they are opened once, not for each
// cluster.
type usage struct {
	writes, reads, conflicts float64
	cpu                      time.Duration
	all                      map[request]float64
}

// used reads the API server's own counters of requests. Reads of the benchmark are left
// out.
func (s *server) used(ctx context.Context) (usage, error) {
	c, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return usage{}, err
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return usage{}, fmt.Errorf("read the server's metrics: %w", err)
	}
	all, err := counters(bytes.NewReader(text), "apiserver_request_total")
	u := usage{all: all, cpu: s.cpu(), reads: -s.ownReads}
	s.ownReads++
	for r, n := range all {
		if r.code == "409" {
			u.conflicts += n
		}
		switch {
		case r.isWrite():
			u.writes += n
		case r.verb == "GET" || r.verb == "LIST":
			u.reads += n
		}
	}
	return u, err
}

// counters reads the counters of one name from metrics, by their labels.
func counters(metrics io.Reader, name string) (map[request]float64, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(metrics)
	out := map[request]float64{}
	for _, m := range families[name].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		resource := strings.TrimSuffix(labels["resource"]+"/"+labels["subresource"], "/")
		out[request{labels["verb"], resource, labels["code"]}] += m.GetCounter().GetValue()
	}
	return out, err
}

// since is what has been done since another measurement, less the benchmark's own writes.
func (u usage) since(before usage, ownWrites float64) usage {
	all := map[request]float64{}
	for r, n := range u.all {
		if n > before.all[r] {
			all[r] = n - before.all[r]
		}
	}
	return usage{
		writes: u.writes - before.writes - ownWrites, reads: max(0, u.reads-before.reads),
		conflicts: u.conflicts - before.conflicts, cpu: u.cpu - before.cpu, all: all,
	}
}

// print prints the requests, divided by n.
func (u usage) print(what string, n float64) {
	say("requests per "+what, "%8.2f writes, %.2f reads, %.2f conflicts", u.writes/n, u.reads/n, u.conflicts/n)
}

// writesByKind are the writes by verb and resource.
func (u usage) writesByKind() map[string]float64 {
	byKind := map[string]float64{}
	for r, count := range u.all {
		if r.isWrite() {
			kind := r.verb + " " + r.resource
			if r.code == "409" {
				kind += " (conflict)"
			}
			byKind[kind] += count
		}
	}
	return byKind
}

// printWrites prints the writes by kind, divided by n.
func (u usage) printWrites(n float64) {
	byKind := u.writesByKind()
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		if each := byKind[kind] / n; each >= 0.005 {
			fmt.Printf("  %-46s %8.2f\n", kind, each)
		}
	}
}

// quiet is for how long nothing may be written before what is measured next
// counts as begun, or ended.
const quiet = 2 * time.Second

// settled is what the server has done once nothing is written any longer.
func (s *server) settled(ctx context.Context) (usage, error) {
	last, err := s.used(ctx)
	for err == nil {
		time.Sleep(quiet)
		var now usage
		if now, err = s.used(ctx); now.writes == last.writes {
			return now, err
		}
		last = now
	}
	return usage{}, err
}

// await takes the events of one or two watches until done returns true for an object.
func await(
	ctx context.Context, patience time.Duration, done func(runtime.Object) bool, watches ...watch.Interface,
) error {
	events := [2]<-chan watch.Event{}
	for i, w := range watches {
		events[i] = w.ResultChan()
	}
	for {
		var e watch.Event
		select {
		case e = <-events[0]:
		case e = <-events[1]:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
			return fmt.Errorf("nothing has happened for %s", patience)
		}
		if e.Object != nil && done(e.Object) {
			return nil
		}
	}
}
