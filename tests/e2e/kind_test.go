package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/muster-fleet/terraform-provider-muster/runtime/fleet"
)

// requireKindEnv, set to 1, turns the skipping of tests that need a container
// engine into a failure, so that a run that is meant to have one cannot pass
// without it.
const requireKindEnv = "REQUIRE_KIND"

const image = "muster.test/muster:e2e"

func TestKindClusterRunsTheAgentAsAPod(t *testing.T) {
	driver, err := fleet.NewKind(filepath.Join(t.TempDir(), "clusters"))
	skipWithoutKind(t, err)
	t.Cleanup(func() {
		if err := driver.Stop(context.Background(), "cluster1"); err != nil {
			t.Error(err)
		}
	})
	member, err := driver.Start(t.Context(), "cluster1")
	skipWithoutKind(t, err)

	machines := nodesOf(t, driver.ClusterName("cluster1"))
	archive, err := imageArchive(muster, image)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range machines {
		if err := nodeutils.LoadImageArchive(node, bytes.NewReader(archive)); err != nil {
			t.Fatalf("load the image of muster into %s: %v", node, err)
		}
	}
	hubMember := upFleet(t, fleet.UpOptions{
		Driver:         fleet.DriverDevcluster, // of which there are none
		HubBindAddress: "0.0.0.0",
		HubExternalURL: "https://" + net.JoinHostPort(hostSeenFrom(t, machines[0]), strconv.Itoa(freePort(t))),
	})[0]
	hub, managed := admin(t, hubMember), admin(t, member)
	join(t, hub, managed, "cluster1", image)
	runWork(t, hub, managed, "cluster1", image)
}

// skipWithoutKind skips the test when kind can make no cluster on this machine,
// and fails it on any other error.
func skipWithoutKind(t *testing.T, err error) {
	t.Helper()
	var unavailable *fleet.KindUnavailableError
	switch {
	case err == nil:
	case errors.As(err, &unavailable) && os.Getenv(requireKindEnv) != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func nodesOf(t *testing.T, kindName string) []nodes.Node {
	t.Helper()
	option, err := cluster.DetectNodeProvider()
	if err != nil {
		t.Fatal(err)
	}
	found, err := cluster.NewProvider(option).ListInternalNodes(kindName)
	if err != nil || len(found) == 0 {
		t.Fatalf("the nodes of %s: %v, %v", kindName, found, err)
	}
	return found
}

// hostSeenFrom is the address by which a node reaches this machine: the gateway
// of its network.
func hostSeenFrom(t *testing.T, node nodes.Node) string {
	t.Helper()
	var out bytes.Buffer
	if err := node.Command("ip", "-4", "route", "show", "default").SetStdout(&out).Run(); err != nil {
		t.Fatalf("ask %s for its gateway: %v", node, err)
	}
	address, err := gateway(out.String())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// gateway finds the address in "default via 172.18.0.1 dev eth0".
func gateway(route string) (string, error) {
	words := strings.Fields(route)
	for i, w := range words {
		if w == "via" && i+1 < len(words) && net.ParseIP(words[i+1]) != nil {
			return words[i+1], nil
		}
	}
	return "", fmt.Errorf("no gateway in the route %q", route)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
