package life

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
)

// methods counts requests by their HTTP methods.
type methods map[string]int

// writes are those of them that mean to change something.
func (m methods) writes() methods {
	w := maps.Clone(m)
	delete(w, "GET")
	return w
}

// requests counts what the clients in this process have sent, by the host that
// they sent it to. As everybody has a name of their own for a server, this shows
// who has sent it, too.
type requests map[string]methods

// agentHost is what the agent calls the hub.
func (h *fleetHub) agentHost() string { return net.JoinHostPort("localhost", strconv.Itoa(h.port)) }

// ownHost is what the hub calls itself. The test does too, and only reads.
func (h *fleetHub) ownHost() string { return strings.TrimPrefix(h.url, "https://") }

func (h *fleetHub) requests() requests {
	h.t.Helper()
	all := requests{}
	h.counts("rest_client_requests_total", func(labels string, n int) {
		host, method := label(labels, "host"), label(labels, "method")
		if all[host] == nil {
			all[host] = methods{}
		}
		all[host][method] += n
	})
	return all
}

// passes counts how often a controller of the hub has reconciled something.
func (h *fleetHub) passes(controller string) int {
	h.t.Helper()
	passes := 0
	h.counts("controller_runtime_reconcile_total", func(labels string, n int) {
		if label(labels, "controller") == controller {
			passes += n
		}
	})
	return passes
}

// counts reads a metric of this process that counts something.
func (h *fleetHub) counts(metric string, each func(labels string, n int)) {
	h.t.Helper()
	body, err := h.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	testkit.Must(h.t, err)
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), metric+"{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		n, err := strconv.Atoi(value)
		testkit.Must(h.t, err)
		each(labels, n)
	}
	testkit.Must(h.t, lines.Err())
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// since is what was sent after before was counted.
func (r requests) since(before requests) requests {
	more := requests{}
	for host, counts := range r {
		more[host] = methods{}
		for method, n := range counts {
			if n -= before[host][method]; n > 0 {
				more[host][method] = n
			}
		}
	}
	return more
}
