package chaos_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
)

// agentCommand is the argument by which this program knows that it is to be an agent. It
// takes those flags of the command muster agent that the lab gives.
const agentCommand = "agent"

// wrongClock is a clock that is off by a constant time, as that of a machine that was
// started without one of its own, or from a snapshot.
type wrongClock struct {
	clock.RealClock
	by time.Duration
}

func (c wrongClock) Now() time.Time { return c.RealClock.Now().Add(c.by) }

func (c wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// wrong is how far clocks are off, in both directions.
var wrong = []time.Duration{2 * time.Minute, time.Hour, 48 * time.Hour, 20 * 365 * 24 * time.Hour}

// clockFile is the file that says how far the clock is off in which an agent starts that has
// this bootstrap kubeconfig.
func clockFile(bootstrap string) string { return filepath.Join(filepath.Dir(bootstrap), "clock") }

// runAgent runs an agent with a wrong clock until it is killed. Only what the agent itself
// does by the clock is wrong: TLS goes by the machine's.
func runAgent(args []string) error {
	ctx, remove := lifeline.Follow(context.Background())
	defer func() { _ = remove() }()
	o := agent.Options{Log: logging.Setup(ctx, os.Stderr, 0, false)}
	flags := flag.NewFlagSet(agentCommand, flag.ExitOnError)
	local := flags.String("kubeconfig", "", "access to the managed cluster")
	flags.StringVar(&o.ClusterName, "cluster-name", "", "the cluster")
	flags.StringVar(&o.BootstrapKubeconfig, "bootstrap-kubeconfig", "", "access to the hub to join by")
	flags.DurationVar(&o.EvictionGracePeriod, "appliedmanifestwork-eviction-grace-period", 0,
		"how long what is left of works stays")
	flags.BoolVar(&o.UserAccess, "user-access", false, "let users of the hub in")
	_ = flags.Parse(args)

	off, err := os.ReadFile(clockFile(o.BootstrapKubeconfig))
	if err != nil {
		return err
	}
	by, err := time.ParseDuration(string(off))
	if err != nil {
		return err
	}
	o.Clock = wrongClock{by: by}
	if o.ManagedCluster, err = clientcmd.BuildConfigFromFlags("", *local); err != nil {
		return err
	}
	return agent.Run(ctx, o)
}

// startWrong kills an agent and starts it again on a machine with a wrong clock.
func startWrong(l *lab, m *member) error {
	by := wrong[l.rand.IntN(len(wrong))]
	if l.rand.IntN(2) == 0 {
		by = -by
	}
	l.note("the clock of %s is off by %s", m.name, by)
	if err := m.agent.Kill(); err != nil {
		return err
	}
	if err := os.WriteFile(clockFile(m.bootstrap), []byte(by.String()), 0o600); err != nil {
		return err
	}
	return m.agent.RestartAs(os.Args[0])
}

// startRight starts it again on a machine with a right one.
func startRight(l *lab, m *member) error {
	if err := m.agent.Kill(); err != nil {
		return err
	}
	return m.agent.RestartAs(l.muster)
}
