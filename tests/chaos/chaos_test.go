package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/logging"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// fleet is the quickstart with three clusters in a folder of its own.
type fleet struct {
	t                 *testing.T
	dir, muster, conf string
	env               []string
}

func newFleet(t *testing.T) *fleet {
	logging.Setup(context.Background(), io.Discard, 0, false)
	skipWithoutTerraform(t)
	f := &fleet{t: t, dir: t.TempDir()}
	var err error
	if f.muster, err = (&testhub.Builder{}).Path(f.dir); err != nil {
		t.Fatal(err)
	}
	f.conf = filepath.Join(f.dir, "examples", "quickstart")
	if err := os.CopyFS(filepath.Join(f.dir, "examples"), os.DirFS(filepath.Join("..", "..", "examples"))); err != nil {
		t.Fatal(err)
	}
	f.env = append(terraformEnv(t), "TF_VAR_fleet_dir="+f.dir+"/fleet")
	f.up()
	t.Cleanup(func() { f.run(f.muster, "down", "--data-dir", f.dir+"/fleet") })
	f.mustTerraform("get")
	return f
}

// up starts what is not running, at the address that it had.
func (f *fleet) up() {
	f.t.Helper()
	f.run(f.muster, "up", "--data-dir", f.dir+"/fleet", "--clusters", "3")
}

func (f *fleet) command(name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(name, args...)
	out := &bytes.Buffer{}
	cmd.Env, cmd.Stdout, cmd.Stderr = f.env, out, out
	return cmd, out
}

func (f *fleet) run(name string, args ...string) {
	f.t.Helper()
	cmd, out := f.command(name, args...)
	if err := cmd.Run(); err != nil {
		f.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func (f *fleet) terraform(args ...string) (*exec.Cmd, *bytes.Buffer) {
	return f.command(os.Getenv("TF_ACC_TERRAFORM_PATH"), append([]string{"-chdir=" + f.conf}, args...)...)
}

func (f *fleet) apply() {
	f.t.Helper()
	f.mustTerraform("apply", "-auto-approve", "-input=false", "-no-color")
}

func (f *fleet) mustTerraform(args ...string) {
	f.t.Helper()
	cmd, out := f.terraform(args...)
	if err := cmd.Run(); err != nil {
		f.t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// kill ends the process that uses a folder of the fleet, as a crash does.
func (f *fleet) kill(folder string) {
	f.t.Helper()
	pid := datadir.Owner(filepath.Join(f.dir, "fleet", folder))
	if pid <= 0 {
		f.t.Fatalf("no process uses %s", folder)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	testkit.Eventually(f.t, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && datadir.Owner(filepath.Join(f.dir, "fleet", folder)) == pid {
			return errors.New("the process is still there")
		}
		return nil
	})
}

func (f *fleet) client(folder string) client.Client {
	f.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.dir, "fleet", folder, "admin.kubeconfig"))
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// whole checks that the fleet is complete and that nothing is there twice.
func (f *fleet) whole() error {
	ctx := context.Background()
	hub := f.client("hub")
	clusters, works := &clusterv1.ManagedClusterList{}, &workv1.ManifestWorkList{}
	if err := errors.Join(hub.List(ctx, clusters), hub.List(ctx, works)); err != nil {
		return err
	}
	if len(clusters.Items) != 3 || len(works.Items) != 3 {
		return fmt.Errorf("there are %d clusters and %d works, want 3 and 3", len(clusters.Items), len(works.Items))
	}
	for _, c := range clusters.Items {
		for _, kind := range []string{cluster.ConditionHubAccepted, cluster.ConditionJoined, cluster.ConditionAvailable} {
			if !meta.IsStatusConditionTrue(c.Status.Conditions, kind) {
				return fmt.Errorf("%s of the cluster %s is not True: %+v", kind, c.Name, c.Status.Conditions)
			}
		}
	}
	for _, w := range works.Items {
		for _, kind := range []string{work.ConditionApplied, work.ConditionAvailable} {
			if !meta.IsStatusConditionTrue(w.Status.Conditions, kind) {
				return fmt.Errorf("%s of the work %s/%s is not True: %+v", kind, w.Namespace, w.Name, w.Status.Conditions)
			}
		}
		applied := &workv1.AppliedManifestWorkList{}
		if err := f.client(filepath.Join("clusters", w.Namespace)).List(ctx, applied); err != nil {
			return err
		}
		if len(applied.Items) != 1 {
			return fmt.Errorf("the cluster %s has %d applied works, want 1", w.Namespace, len(applied.Items))
		}
	}
	return nil
}

// One fleet outlives all three: to build, start and apply it takes longer than
// to kill a part of it.
func TestAFleetOutlivesItsProcesses(t *testing.T) {
	f := newFleet(t)
	for _, x := range []struct {
		name string
		test func(*testing.T, *fleet)
	}{
		{"the hub is killed during an apply", hubIsKilledDuringAnApply},
		{"the hub is killed at rest", hubIsKilledAtRest},
		{"an agent is killed", agentIsKilled},
		{"the hub is lost, and restored elsewhere", hubIsRestoredElsewhere},
	} {
		t.Run(x.name, func(t *testing.T) {
			same := *f
			same.t = t
			x.test(t, &same)
		})
	}
}

func hubIsKilledDuringAnApply(t *testing.T, f *fleet) {
	apply, out := f.terraform("apply", "-auto-approve", "-input=false", "-no-color")
	if err := apply.Start(); err != nil {
		t.Fatal(err)
	}
	hub := f.client("hub")
	testkit.Eventually(t, func() error {
		clusters := &clusterv1.ManagedClusterList{}
		if err := hub.List(context.Background(), clusters); err != nil {
			return err
		}
		if len(clusters.Items) == 0 {
			return errors.New("the apply has not begun")
		}
		return nil
	})
	f.kill("hub")
	f.up()
	if err := apply.Wait(); err != nil {
		t.Logf("the apply did not outlive the hub, so another one has to finish: %v\n%s", err, out)
	}
	f.apply()
	testkit.Eventually(t, f.whole)
	f.mustTerraform("plan", "-detailed-exitcode", "-input=false", "-no-color")

	tokens := &corev1.SecretList{}
	if err := f.client("hub").List(context.Background(), tokens, client.InNamespace("kube-system")); err != nil {
		t.Fatal(err)
	}
	for _, s := range tokens.Items {
		if s.Type == corev1.SecretTypeBootstrapToken && len(s.Data["expiration"]) == 0 {
			t.Errorf("the bootstrap token %s was left behind and never expires", s.Name)
		}
	}
}

func hubIsKilledAtRest(t *testing.T, f *fleet) {
	f.apply()
	requests := f.requests()
	f.kill("hub")
	f.up()
	testkit.Eventually(t, f.whole)
	// The agents are back when they carry out what is new.
	hub := f.client("hub")
	mw := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "hello"}}
	if err := hub.Patch(context.Background(), mw, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deleteOption":{"propagationPolicy":"Foreground"}}}`))); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		if err := hub.Get(context.Background(), client.ObjectKeyFromObject(mw), mw); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(mw.Status.Conditions, work.ConditionApplied); c == nil || c.ObservedGeneration != mw.Generation {
			return fmt.Errorf("the work's generation is %d and its condition %+v", mw.Generation, c)
		}
		return nil
	})
	f.apply() // which removes what the test has added
	f.mustTerraform("plan", "-detailed-exitcode", "-input=false", "-no-color")
	if now := f.requests(); !slices.Equal(now, requests) {
		t.Errorf("the certificate requests were %v and are %v: an agent asked for another certificate", requests, now)
	}
}

func agentIsKilled(t *testing.T, f *fleet) {
	f.apply()
	requests := f.requests()
	f.kill(filepath.Join("clusters", "cluster1"))
	killed := time.Now()
	f.up()
	testkit.Eventually(t, func() error { return f.heartbeat("cluster1", killed) })
	testkit.Eventually(t, f.whole)
	if now := f.requests(); !slices.Equal(now, requests) {
		t.Errorf("the certificate requests were %v and are %v: the agent asked for another certificate", requests, now)
	}

	// And it still repairs what it manages.
	c := f.client(filepath.Join("clusters", "cluster1"))
	cm := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: "hello", Name: "hello"}
	if err := c.Get(context.Background(), key, cm); err != nil {
		t.Fatal(err)
	}
	cm.Data["greeting"] = "edited"
	if err := c.Update(context.Background(), cm); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, func() error {
		if err := c.Get(context.Background(), key, cm); err != nil {
			return err
		}
		if cm.Data["greeting"] != "Hello from cluster1" {
			return fmt.Errorf("the config map says %q", cm.Data["greeting"])
		}
		return nil
	})
}

// hubIsRestoredElsewhere is the drill of the runbook: a backup becomes a hub on another
// machine and at another URL, which was one of the hub's before. Nobody touches a cluster.
func hubIsRestoredElsewhere(t *testing.T, f *fleet) {
	f.apply()
	there, err := url.Parse(f.server())
	testkit.Must(t, err)
	elsewhere, err := url.Parse("https://" + testkit.FreeAddress(t))
	testkit.Must(t, err)
	f.kill("hub")
	hub, err := testhub.StartHub(f.muster, filepath.Join(f.dir, "fleet", "hub"), "--secure-port", there.Port(),
		"--external-url", there.String(), "--additional-external-urls", elsewhere.String())
	testkit.Must(t, err)
	testkit.Eventually(t, func() error { return f.agentsAt(2) })
	requests, objects := f.requests(), f.objects()
	backup, passphrase := filepath.Join(f.dir, "hub.backup"), filepath.Join(f.dir, "passphrase")
	testkit.Must(t, os.WriteFile(passphrase, []byte("correct horse battery staple\n"), 0o600))
	f.run(f.muster, "hub", "backup", "--data-dir", filepath.Join(f.dir, "fleet", "hub"),
		"--output", backup, "--passphrase-file", passphrase)
	testkit.Must(t, hub.Kill())
	testkit.Must(t, os.RemoveAll(filepath.Join(f.dir, "fleet", "hub")))

	restored := filepath.Join(t.TempDir(), "hub")
	f.run(f.muster, "hub", "restore", backup, "--data-dir", restored, "--passphrase-file", passphrase)
	// Where the configuration looks for the administrator's kubeconfig.
	testkit.Must(t, os.Symlink(restored, filepath.Join(f.dir, "fleet", "hub")))
	since := time.Now()
	hub, err = testhub.StartHub(f.muster, restored,
		"--secure-port", elsewhere.Port(), "--external-url", elsewhere.String())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, hub.Stop()) })
	for _, name := range []string{"cluster1", "cluster2", "cluster3"} { // they look for the hub after two minutes
		testkit.EventuallyWithin(t, 5*time.Minute, "the agent of "+name+" is back", func() error {
			return f.heartbeat(name, since)
		})
	}
	testkit.Eventually(t, f.whole)
	f.mustTerraform("plan", "-detailed-exitcode", "-input=false", "-no-color")
	if now := f.requests(); !slices.Equal(now, requests) {
		t.Errorf("the certificate requests were %v and are %v: an agent asked for another certificate", requests, now)
	}
	if now := f.objects(); !slices.Equal(now, objects) {
		t.Errorf("the objects of works were %v and are %v: they were written again", objects, now)
	}
}

// server is the URL of the hub.
func (f *fleet) server() string {
	f.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.dir, "fleet", "hub", "admin.kubeconfig"))
	testkit.Must(f.t, err)
	return config.Host
}

// agentsAt checks that all agents have followed the hub's endpoints to a generation.
func (f *fleet) agentsAt(generation int64) error {
	clusters := &clusterv1.ManagedClusterList{}
	if err := f.client("hub").List(context.Background(), clusters); err != nil {
		return err
	}
	for _, c := range clusters.Items {
		at := meta.FindStatusCondition(c.Status.Conditions, muster.ConditionHubEndpointCurrent)
		if at == nil || at.Reason != muster.ReasonEndpointCurrent ||
			muster.EndpointGeneration(at.Message) != generation {
			return fmt.Errorf("the agent of %s is elsewhere: %+v", c.Name, at)
		}
	}
	return nil
}

// objects are the versions of the objects that works have brought to the clusters.
func (f *fleet) objects() []string {
	f.t.Helper()
	var versions []string
	for _, name := range []string{"cluster1", "cluster2", "cluster3"} {
		cm := &corev1.ConfigMap{}
		testkit.Must(f.t, f.client(filepath.Join("clusters", name)).Get(
			context.Background(), types.NamespacedName{Namespace: "hello", Name: "hello"}, cm))
		versions = append(versions, name+" "+cm.ResourceVersion)
	}
	return versions
}

// requests are the names of all certificate requests.
func (f *fleet) requests() []string {
	f.t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := f.client("hub").List(context.Background(), list); err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// heartbeat checks that a cluster has given a sign of life since a time.
func (f *fleet) heartbeat(name string, since time.Time) error {
	lease := &coordinationv1.Lease{}
	if err := f.client("hub").Get(context.Background(), types.NamespacedName{Namespace: name, Name: cluster.LeaseName}, lease); err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
		return fmt.Errorf("the last heartbeat of %s is of %v", name, lease.Spec.RenewTime)
	}
	return nil
}
