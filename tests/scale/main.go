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
	"os"
	"os/exec"
	"path/filepath"
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
