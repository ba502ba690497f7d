// Command scale measures a hub from outside: how long it takes to start, what
// it has in memory, and how many requests a cluster costs. The numbers come
// from the operating system and from the API server's own counters.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
)

func main() {
	muster := flag.String("muster", "bin/muster", "the muster binary to measure")
	agent := flag.String("agent", "", "the muster-agent binary to measure; the muster binary by default")
	clusters := flag.Int("clusters", 300, "how many clusters to accept; 0 leaves out all but --fleet")
	fleet := flag.Int("fleet", 5000, "how many clusters the hub has when the requests of single agents are measured; 0 leaves that out")
	loadedFleet := flag.Int("loaded", 0,
		"how many clusters report, get a work and give heartbeats as fast as the hub takes it; 0 leaves that out")
	addOnClusters := flag.Int("addon-clusters", 1000, "how many clusters get add-ons; 0 leaves that out")
	settle := flag.Duration("settle", time.Minute, "how long the hub rests before its memory is read")
	flag.Parse()
	if *agent == "" {
		*agent = *muster
	}
	logging.Setup(context.Background(), io.Discard, 0, false)
	err := error(nil)
	if *clusters > 0 {
		err = measure(context.Background(), programs{*muster, *agent}, *clusters, *settle)
	}
	if err == nil && *fleet > 0 {
		err = measureFleet(context.Background(), *muster, *fleet)
	}
	if err == nil && *loadedFleet > 0 {
		err = measureLoaded(context.Background(), *muster, *loadedFleet, *settle)
	}
	if err == nil && *addOnClusters > 0 {
		err = measureAddOns(context.Background(), *muster, *addOnClusters)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// programs are the binaries to measure: the complete one, and the one that agents
// run.
type programs struct{ muster, agent string }

func measure(ctx context.Context, p programs, clusters int, settle time.Duration) error {
	info, err := os.Stat(p.muster)
	if err != nil {
		return fmt.Errorf("find the binary: %w: run \"make build\" first", err)
	}
	fmt.Printf("%-48s %8.1f MB\n", "binary "+p.muster, mb(info.Size()))
	if agent, err := os.Stat(p.agent); err == nil && p.agent != p.muster {
		fmt.Printf("%-48s %8.1f MB\n", "binary "+p.agent, mb(agent.Size()))
	}
	if provider, err := os.Stat(filepath.Join(filepath.Dir(p.muster), "terraform-provider-muster")); err == nil {
		fmt.Printf("%-48s %8.1f MB\n", "binary "+provider.Name(), mb(provider.Size()))
	}
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for _, boot := range []string{"first boot", "later boot"} {
		h, err := start(p.muster, dir)
		if err != nil {
			return err
		}
		fmt.Printf("%-48s %8.2f s, %.2f CPU s\n", "hub ready, "+boot, h.ready.Seconds(), h.cpu().Seconds())
		if boot == "first boot" {
			if err := h.stop(); err != nil {
				return err
			}
			continue
		}
		defer func() { _ = h.stop() }()
		before := h.cpu()
		held, err := h.observe(settle)
		if err != nil {
			return err
		}
		fmt.Printf("%-48s %s\n", fmt.Sprintf("hub's memory after %s at rest", settle), held)
		fmt.Printf("%-48s %8.2f %% of a core\n", "CPU at rest", 100*(h.cpu()-before).Seconds()/settle.Seconds())

		config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
		if err != nil {
			return err
		}
		config.QPS, config.UserAgent = -1, "muster-bench"
		c, err := client.NewWithWatch(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
		if err != nil {
			return err
		}
		if err := agents(ctx, p, dir, config, c); err != nil {
			return err
		}
		if err := acceptClusters(ctx, h, config, c, "cluster", clusters); err != nil {
			return err
		}
		fmt.Printf("%-48s %8.1f MB anonymous\n", fmt.Sprintf("hub's memory with %d clusters", clusters), h.anonymous())
	}
	return nil
}

// agents measures what clusters with agents cost, which all live in one dev
// cluster.
func agents(ctx context.Context, p programs, dir string, config *rest.Config, c client.WithWatch) error {
	managed, err := startProcess(p.muster, "devcluster", filepath.Join(dir, "devcluster"))
	if err != nil {
		return err
	}
	defer func() { _ = managed.stop() }()
	if err := joinClusters(ctx, p.agent, dir, config, c, managed, 5); err != nil {
		return err
	}
	if err := steadyState(ctx, p.agent, dir, config, c, managed); err != nil {
		return err
	}
	return measureWorks(ctx, p.agent, dir, config, c, managed)
}

// process is a running hub, dev cluster or agent.
type process struct {
	cmd        *exec.Cmd
	ready      time.Duration // from exec to when it was ready
	kubeconfig string
}

func start(muster, dir string) (*process, error) {
	return startProcess(muster, "hub", filepath.Join(dir, "hub"))
}

// startProcess starts a hub or a dev cluster and waits until it is ready.
func startProcess(muster, command, dir string) (*process, error) {
	p := &process{cmd: exec.Command(muster, command, "--data-dir", dir, "--secure-port", "0")}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", command, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the %s ended before it was ready: %w", command, p.cmd.Wait())
	}
	p.ready = time.Since(begin)
	_, p.kubeconfig, _ = strings.Cut(strings.TrimSpace(line), " kubeconfig ")
	return p, nil
}

func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// kill ends a process that keeps nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cpu is the CPU time that the process has used, in clock ticks of 10 ms.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The fields follow the command's name, which is in parentheses.
	fields := strings.Fields(string(data)[strings.LastIndexByte(string(data), ')')+1:])
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

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

// request is what is counted together.
type request struct{ verb, resource, code string }

// counters reads the API server's own counters of requests.
func counters(ctx context.Context, config *rest.Config) (map[request]float64, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read the hub's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("read the hub's metrics: %s: %s", resp.Status, body)
	}
	out := map[request]float64{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		resource := label(labels, "resource")
		if sub := label(labels, "subresource"); sub != "" {
			resource += "/" + sub
		}
		out[request{label(labels, "verb"), resource, label(labels, "code")}] += n
	}
	return out, lines.Err()
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

type counts struct{ writes, reads, conflicts float64 }

// requests sums the counters up. Watches are not counted: they are opened once, not
// for each cluster.
func requests(ctx context.Context, config *rest.Config) (counts, error) {
	all, err := counters(ctx, config)
	return sum(all), err
}

func sum(all map[request]float64) (c counts) {
	for r, n := range all {
		if r.code == "409" {
			c.conflicts += n
		}
		switch {
		case r.isWrite():
			c.writes += n
		case r.verb == "GET" || r.verb == "LIST":
			c.reads += n
		}
	}
	return c
}

func (r request) isWrite() bool {
	return slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, r.verb)
}

// usage is what a hub has done.
type usage struct {
	counts
	cpu time.Duration
	all map[request]float64
}

func measureUsage(ctx context.Context, h *process, config *rest.Config) (usage, error) {
	all, err := counters(ctx, config)
	return usage{counts: sum(all), cpu: h.cpu(), all: all}, err
}

// since is what has been done since another measurement.
func (u usage) since(before usage) usage {
	all := map[request]float64{}
	for r, n := range u.all {
		if n > before.all[r] {
			all[r] = n - before.all[r]
		}
	}
	return usage{counts: sum(all), cpu: u.cpu - before.cpu, all: all}
}

// print prints the writes by kind, divided by n.
func (u usage) print(n float64) {
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
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		if each := byKind[kind] / n; each >= 0.005 {
			fmt.Printf("  %-46s %8.2f\n", kind, each)
		}
	}
}
