package fleet

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

func up(t *testing.T, f *Fleet, clusters int) []Member {
	t.Helper()
	members, err := f.Up(t.Context(), UpOptions{Clusters: clusters, Driver: DriverDevcluster})
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func names(members []Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

func pids(t *testing.T, path string, members []Member) []int {
	t.Helper()
	var pids []int
	for _, m := range members {
		pid := datadir.Owner(memberDir(path, m.Name))
		if pid == 0 {
			t.Errorf("%s does not run", m.Name)
		}
		pids = append(pids, pid)
	}
	return pids
}

func TestUpLeavesAHubAndClustersRunning(t *testing.T) {
	f, path := testFleet(t)
	members := up(t, f, 2)
	f.Close()
	if want := []string{"hub", "cluster1", "cluster2"}; !slices.Equal(names(members), want) {
		t.Errorf("got %q, want %q", names(members), want)
	}
	for i, pid := range pids(t, path, members) {
		m := members[i]
		if want := filepath.Join(memberDir(path, m.Name), "admin.kubeconfig"); m.Kubeconfig != want {
			t.Errorf("%s: kubeconfig %s, want %s", m.Name, m.Kubeconfig, want)
		}
		if url, err := waitAnswers(t.Context(), m.Kubeconfig); err != nil || url != m.URL {
			t.Errorf("%s: answers at %q, %v, want %q", m.Name, url, err, m.URL)
		}
		// The signal that a terminal sends goes to the group of this process.
		if group, err := syscall.Getpgid(pid); err != nil || group != pid {
			t.Errorf("%s: process %d is of group %d, %v", m.Name, pid, group, err)
		}
	}
}

func TestUpAgainChangesNothing(t *testing.T) {
	f, path := testFleet(t)
	first := up(t, f, 2)
	before := pids(t, path, first)
	f.Close()
	again := open(t, path)
	defer again.Close()
	second := up(t, again, 2)
	if !slices.Equal(pids(t, path, second), before) {
		t.Error("processes were replaced")
	}
	for i := range second {
		if !second[i].Found || first[i].Found || second[i].URL != first[i].URL {
			t.Errorf("got %+v after %+v", second[i], first[i])
		}
	}
}

func TestUpRestartsTheDeadOnTheirPorts(t *testing.T) {
	f, path := testFleet(t)
	first := up(t, f, 2)
	before := pids(t, path, first)
	for _, pid := range before[:2] { // the hub and cluster1
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range first[:2] {
		waitStopped(t, memberDir(path, m.Name))
	}
	second := up(t, f, 2)
	after := pids(t, path, second)
	for i, m := range second {
		if m.URL != first[i].URL {
			t.Errorf("%s: moved from %s to %s", m.Name, first[i].URL, m.URL)
		}
		if dead := i < 2; (after[i] != before[i]) != dead || m.Found == dead {
			t.Errorf("%s: process %d after %d, found %t", m.Name, after[i], before[i], m.Found)
		}
	}
}

func waitStopped(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for datadir.Owner(dir) != 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still held", dir)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestUpAddsClusters(t *testing.T) {
	f, path := testFleet(t)
	before := pids(t, path, up(t, f, 1))
	members := up(t, f, 3)
	if want := []string{"hub", "cluster1", "cluster2", "cluster3"}; !slices.Equal(names(members), want) {
		t.Errorf("got %q", names(members))
	}
	if after := pids(t, path, members); !slices.Equal(after[:2], before) {
		t.Errorf("processes %v after %v", after, before)
	}
}

func TestFailedMemberIsExplainedAndTheOthersStay(t *testing.T) {
	for how, want := range map[string]string{
		"refuse": "the moon is in the wrong phase",
		"die":    "signal: killed",
	} {
		t.Run(how, func(t *testing.T) {
			f, path := testFleet(t)
			misbehave(t, path, "cluster1", how)
			var mu sync.Mutex
			failed := map[string]bool{}
			members, err := f.Up(t.Context(), UpOptions{Clusters: 2, Driver: DriverDevcluster, Progress: func(p Progress) {
				mu.Lock()
				defer mu.Unlock()
				failed[p.Member.Name] = p.Err != nil
			}})
			if err == nil {
				t.Fatal("no error")
			}
			log := filepath.Join(path, "clusters", "cluster1", "muster.log")
			for _, w := range []string{"cluster1", want, log} {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if want := []string{"hub", "cluster2"}; !slices.Equal(names(members), want) {
				t.Errorf("running: %q, want %q", names(members), want)
			}
			if !failed["cluster1"] || failed["hub"] || failed["cluster2"] || len(failed) != 3 {
				t.Errorf("progress: failed %v", failed)
			}
			pids(t, path, members)

			behave(t, path, "cluster1")
			if members := up(t, f, 2); len(members) != 3 {
				t.Errorf("after the repair: %q", names(members))
			}
		})
	}
}

func TestRememberedPortThatIsTakenIsExplained(t *testing.T) {
	f, _ := testFleet(t)
	first := up(t, f, 1)
	if _, err := f.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	port, err := portOf(first[1].URL)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = f.Up(t.Context(), UpOptions{Clusters: 1, Driver: DriverDevcluster})
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range []string{"cluster1", strconv.Itoa(port), "used by another process", "fleet.json"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestDownStopsAllAndTwiceIsNoError(t *testing.T) {
	f, path := testFleet(t)
	members := up(t, f, 2)
	stopped, err := f.Down(t.Context())
	if err != nil || !slices.Equal(stopped, []string{"hub", "cluster1", "cluster2"}) {
		t.Errorf("got %q, %v", stopped, err)
	}
	for _, m := range members {
		if pid := datadir.Owner(memberDir(path, m.Name)); pid != 0 {
			t.Errorf("%s still runs as %d", m.Name, pid)
		}
	}
	if stopped, err := f.Down(t.Context()); err != nil || len(stopped) != 0 {
		t.Errorf("again: got %q, %v", stopped, err)
	}
	if again := up(t, f, 2); again[1].URL != members[1].URL {
		t.Errorf("cluster1 came back at %s and was at %s", again[1].URL, members[1].URL)
	}
}

func TestDownKnowsClustersThatFleetJSONHasLost(t *testing.T) {
	f, path := testFleet(t)
	up(t, f, 1)
	f.Close()
	if err := os.Remove(filepath.Join(path, "fleet.json")); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	defer again.Close()
	if stopped, err := again.Down(t.Context()); err != nil || !slices.Equal(stopped, []string{"hub", "cluster1"}) {
		t.Errorf("got %q, %v", stopped, err)
	}
}

func TestDownEndsAProcessThatDoesNotListen(t *testing.T) {
	f, path := testFleet(t)
	misbehave(t, path, "cluster1", "ignore SIGTERM")
	up(t, f, 1)
	began := time.Now()
	if stopped, err := f.Down(t.Context()); err != nil || len(stopped) != 2 {
		t.Errorf("got %q, %v", stopped, err)
	}
	if took := time.Since(began); took < stopTimeout {
		t.Errorf("it was killed after %s and had until %s to end", took, stopTimeout)
	}
	if datadir.Owner(memberDir(path, "cluster1")) != 0 {
		t.Error("it still runs")
	}
}

func TestDownHarmsNoStranger(t *testing.T) {
	f, path := testFleet(t)
	up(t, f, 1)
	if _, err := f.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	})
	// A process that was killed leaves its number in the lock file, and the
	// number is given to others.
	lock := filepath.Join(memberDir(path, "cluster1"), "lock")
	if err := os.WriteFile(lock, []byte(strconv.Itoa(stranger.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	if stopped, err := f.Down(t.Context()); err != nil || len(stopped) != 0 {
		t.Errorf("got %q, %v", stopped, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was harmed: %v", err)
	}
}

func TestOneChangeAtATime(t *testing.T) {
	f, path := testFleet(t)
	if _, err := Open(path, ""); err == nil || !strings.Contains(err.Error(), "another muster up or muster down") {
		t.Errorf("got %v", err)
	}
	f.Close()
	open(t, path).Close()
}

func TestHubGetsTheURLAtWhichItIsReached(t *testing.T) {
	f, _ := testFleet(t)
	url := "https://" + strings.Replace(testkit.FreeAddress(t), "127.0.0.1", "localhost", 1)
	members, err := f.Up(t.Context(), UpOptions{Driver: DriverDevcluster, HubBindAddress: "127.0.0.1", HubExternalURL: url})
	if err != nil {
		t.Fatal(err)
	}
	if members[0].URL != url {
		t.Errorf("got %s, want %s", members[0].URL, url)
	}
}

func TestBadOptionsAreRefusedBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    UpOptions
		want []string
	}{
		{"fewer than no clusters", UpOptions{Clusters: -1, Driver: DriverDevcluster}, []string{"--clusters", "-1"}},
		{"an unknown driver", UpOptions{Driver: "minikube"}, []string{"--driver", "minikube", "devcluster", "kind"}},
		{"a hub that containers do not reach", UpOptions{Clusters: 1, Driver: DriverKind, HubBindAddress: "127.0.0.1"}, []string{"--hub-bind-address", "127.0.0.1", "leave it out"}},
		{"a hub without a port", UpOptions{Clusters: 1, Driver: DriverDevcluster, HubExternalURL: "https://hub.example.org"}, []string{"--hub-external-url", "hub.example.org", "port"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, path := testFleet(t)
			members, err := f.Up(t.Context(), tc.o)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if len(members) > 0 || len(readDir(t, path)) > 1 { // the lock
				t.Errorf("something started: %v, %q", members, readDir(t, path))
			}
		})
	}
}

func readDir(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestClusterKeepsItsDriver(t *testing.T) {
	f, _ := testFleet(t)
	if err := f.state.setCluster("cluster1", clusterState{Driver: "other"}); err != nil {
		t.Fatal(err)
	}
	_, err := f.Up(t.Context(), UpOptions{Clusters: 1, Driver: DriverDevcluster})
	if err == nil || !strings.Contains(err.Error(), "--driver other") {
		t.Errorf("got %v", err)
	}
	if err := f.state.removeCluster("cluster1"); err != nil {
		t.Fatal(err)
	}
}

func TestKubeconfigsAreShownByTheUsersName(t *testing.T) {
	f, path := testFleet(t)
	m := f.RelativeTo(".demo", Member{Kubeconfig: filepath.Join(path, "hub", "admin.kubeconfig")})
	if m.Kubeconfig != ".demo/hub/admin.kubeconfig" {
		t.Errorf("got %s", m.Kubeconfig)
	}
}

// The gates of the hub are remembered; others start it again, and "" are the defaults.
func TestHubKeepsItsGates(t *testing.T) {
	f, path := testFleet(t)
	gates, none, on := "ClusterImport=true", "", true
	var notices []string
	run := func(o UpOptions) (pid int, args string) {
		t.Helper()
		o.Driver = DriverDevcluster
		o.Notice = func(line string) { notices = append(notices, line) }
		members, err := f.Up(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(memberDir(path, HubName), argsFile))
		if err != nil {
			t.Fatal(err)
		}
		return pids(t, path, members)[0], string(text)
	}
	has := func(args string) bool {
		return strings.Contains(args, "--feature-gates=ClusterImport=true") && strings.Contains(args, "--cluster-import-allow-loopback")
	}
	first, args := run(UpOptions{})
	if strings.Contains(args, "--feature-gates") {
		t.Errorf("the hub was started with %q", args)
	}
	second, args := run(UpOptions{HubGates: &gates, HubImportLoopback: &on})
	if second == first || !has(args) || len(notices) != 1 || !strings.Contains(notices[0], "ClusterImport=true") {
		t.Errorf("the hub was started with %q, after %q", args, notices)
	}
	f.Close()
	f = open(t, path)
	defer f.Close()
	if third, args := run(UpOptions{}); third != second || !has(args) {
		t.Errorf("the hub was started again, with %q", args)
	}
	if _, err := f.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, args := run(UpOptions{}); !has(args) {
		t.Errorf("after it was down, the hub has %q", args)
	}
	if _, args := run(UpOptions{HubGates: &none}); strings.Contains(args, "--feature-gates") || !strings.Contains(args, "--cluster-import-allow-loopback") {
		t.Errorf("with the default gates the hub has %q", args)
	}
}
