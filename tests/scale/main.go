// Command scale measures a hub from outside: how long it takes to start, what
// it has in memory, and how many requests a cluster costs. The numbers come
// from the operating system and from the API server's own counters.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/tests/scale/report"
)

func main() {
	muster := flag.String("muster", "bin/muster", "the muster binary to measure")
	agent := flag.String("agent", "", "the muster-agent binary to measure; the muster binary by default")
	clusters := flag.Int("clusters", 300, "how many clusters to accept; 0 leaves out all but --fleet")
	fleet := flag.Int("fleet", 5000,
		"how many clusters the hub has when the requests of single agents are measured; 0 leaves that out")
	var o sizes
	flag.IntVar(&o.clusters, "simulated", 0,
		"how many agents go through the steps of a simulated fleet, in this process and with clusters in memory; "+
			"nothing else is measured then")
	flag.IntVar(&o.placements, "placements", 100, "simulated: how many placements there are")
	flag.IntVar(&o.rollouts, "rollouts", 100, "simulated: how many staged rollouts run at once")
	flag.IntVar(&o.attempts, "attempts", 10,
		"simulated: how often single placements, rollouts and restarts are measured")
	flag.DurationVar(&o.lease, "lease", time.Minute, "simulated: how often an agent gives a heartbeat; whole seconds")
	flag.DurationVar(&o.patience, "patience", 3*time.Minute,
		"simulated: for how long nothing may happen while a step waits")
	flag.Func("steps", "simulated: the steps to take, separated by commas; all without it", func(list string) error {
		if list == "" {
			return nil
		}
		o.steps = strings.Split(list, ",")
		_, err := choose(o.steps)
		return err
	})
	flag.StringVar(&o.profiles, "profiles", "",
		"simulated: the folder that gets profiles of the hub and of the agents in each step")
	agentsLog := flag.String("agents-log", "", "simulated: the file that gets what the agents log")
	flag.StringVar(&o.results, "json", "", "simulated: the file that gets the results")
	page := flag.String("report", "",
		"write the page and the plots of the results in this folder (*.json) into it, and measure nothing")
	addOnClusters := flag.Int("addon-clusters", 1000, "how many clusters get add-ons; 0 leaves that out")
	settle := flag.Duration("settle", time.Minute, "how long the hub rests before its memory is read")
	flag.Parse()
	if *agent == "" {
		*agent = *muster
	}
	ctx := context.Background()
	if *page != "" {
		exitOn(writeReport(*page))
		return
	}
	log, verbosity := io.Discard, 0
	if *agentsLog != "" {
		file, err := os.Create(*agentsLog)
		exitOn(err)
		defer func() { _ = file.Close() }()
		log, verbosity = file, 2
	}
	logging.Setup(ctx, log, verbosity, false)
	if _, err := os.Stat(*muster); err != nil {
		fmt.Fprintf(os.Stderr, "Error: find the binary: %v: run \"make build\" first\n", err)
		os.Exit(1)
	}
	if o.clusters > 0 {
		o.settle = *settle
		exitOn(simulate(ctx, *muster, o, os.Stdout))
		return
	}
	for _, part := range []struct {
		clusters int
		measure  func() error
	}{
		{*clusters, func() error { return measure(ctx, *muster, *agent, *clusters, *settle) }},
		{*fleet, func() error {
			return withHub(*muster, func(h *server) error { return measureFleet(ctx, h, *fleet) })
		}},
		{*addOnClusters, func() error {
			return withHub(*muster, func(h *server) error { return measureAddOns(ctx, h, *addOnClusters) })
		}},
	} {
		if part.clusters == 0 {
			continue
		}
		exitOn(part.measure())
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// writeReport writes the page and the plots of the results in a folder into it.
func writeReport(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	var runs []report.Run
	for _, file := range files {
		var run report.Run
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &run)
		}
		if err != nil {
			return fmt.Errorf("read the results %s: %w", file, err)
		}
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return fmt.Errorf("--report %s: the folder has no results (*.json): "+
			"run a simulated fleet with --json first", dir)
	}
	plots := report.Plots(runs)
	written := map[string]string{"README.md": report.Markdown(runs, plots)}
	for _, p := range plots {
		written[p.File] = p.SVG()
	}
	for name, text := range written {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // a document
			return err
		}
	}
	return nil
}

// measure measures the complete program, and the one that agents run.
func measure(ctx context.Context, muster, agent string, clusters int, settle time.Duration) error {
	provider := filepath.Join(filepath.Dir(muster), "terraform-provider-muster")
	for i, program := range []string{muster, agent, provider} {
		if info, err := os.Stat(program); err == nil && (i == 0 || program != muster) {
			say("binary "+program, "%8.1f MB", mb(info.Size()))
		}
	}
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h, err := startHub(muster, dir)
	if err != nil {
		return err
	}
	say("hub ready, first boot", "%8.2f s, %.2f CPU s", h.ready.Seconds(), h.cpu().Seconds())
	if err := h.Stop(); err != nil {
		return err
	}
	if h, err = startHub(muster, dir); err != nil {
		return err
	}
	defer func() { _ = h.Stop() }()
	say("hub ready, later boot", "%8.2f s, %.2f CPU s", h.ready.Seconds(), h.cpu().Seconds())
	before := h.cpu()
	held, err := h.observe(settle)
	if err != nil {
		return err
	}
	say(fmt.Sprintf("hub's memory after %s at rest", settle), "%s", held)
	say("CPU at rest", "%8.2f %% of a core", 100*(h.cpu()-before).Seconds()/settle.Seconds())
	if err := measureAgents(ctx, muster, agent, dir, h); err != nil {
		return err
	}
	if err := h.accept(ctx, "cluster", clusters); err != nil {
		return err
	}
	say(fmt.Sprintf("hub's memory with %d clusters", clusters), "%8.1f MB anonymous", h.anonymous())
	return nil
}

// measureAgents measures what clusters with agents cost, which all live in one dev
// cluster.
func measureAgents(ctx context.Context, muster, agent, dir string, h *server) error {
	p, err := testhub.StartCluster(muster, filepath.Join(dir, "devcluster"))
	if err != nil {
		return err
	}
	defer func() { _ = p.Stop() }()
	local, err := connect(p, 0)
	if err != nil {
		return err
	}
	b := &agentBench{hub: h, local: local, program: agent, dir: dir}
	for _, part := range []func(context.Context) error{b.joins, b.steadyState, b.works} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
