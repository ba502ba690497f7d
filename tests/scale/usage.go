package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

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
