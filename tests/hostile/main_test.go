package hostile

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
)

var (
	// program is the path of the built muster.
	program string
	// hub is the hub that the tests share. A test that breaks a hub starts one of
	// its own.
	hub *world
)

// attempts and refusals count over all tests.
var attempts, refusals atomic.Int64

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the hub to attack:", err)
		code = 1
	}
	fmt.Printf("hostile: %d of %d attempts refused\n", refusals.Load(), attempts.Load())
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	logging.Setup(context.Background(), os.Stderr, 0, false)
	dir, err := os.MkdirTemp("", "muster-hostile-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = (&testhub.Builder{}).Path(dir); err != nil {
		return 1, err
	}
	if hub, err = startWorld(dir + "/hub"); err != nil {
		return 1, err
	}
	defer func() { _ = hub.process.Kill() }()
	return m.Run(), nil
}

// startWorld starts a hub with its state in dir.
func startWorld(dir string, flags ...string) (*world, error) {
	process, err := testhub.StartHub(program, dir, flags...)
	if err != nil {
		return nil, err
	}
	admin, err := clientcmd.BuildConfigFromFlags("", process.Kubeconfig)
	if err != nil {
		_ = process.Kill()
		return nil, err
	}
	admin.QPS = -1
	return &world{Hub: testfleet.Hub{Admin: admin}, process: process}, nil
}
