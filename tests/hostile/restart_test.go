package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// A starting hub refuses no client by rules that are not loaded yet: it knows
// which clients it will serve, or says that it is starting. Strangers gain nothing.
func TestWhileAHubStarts(t *testing.T) {
	w := ownWorld(t)
	agent := w.Joined(t, "starting", "a")
	agent.Timeout = 2 * time.Second
	c := testfleet.Client(t, agent)
	testkit.Must(t, w.process.Kill())
	restarted := make(chan error, 1)
	go func() { restarted <- w.process.Restart() }()
	mc := &clusterv1.ManagedCluster{}
	var refusal error
	answers, waiting := 0, true
	for waiting || answers == 0 {
		select {
		case err := <-restarted:
			testkit.Must(t, err)
			waiting = false
		default:
		}
		err := c.Get(context.Background(), client.ObjectKey{Name: "starting"}, mc)
		switch {
		case err == nil:
			answers++
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err):
			refusal = fmt.Errorf("the cluster's own agent was refused: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	harmless(t, "a hub that starts refuses its agents", refusal)
}
