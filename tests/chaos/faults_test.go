package chaos_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// fault is something that goes wrong for a while.
type fault struct {
	name string
	// of is what is at fault; two faults of one round are never of the same.
	of string
	// begin makes it go wrong, and end has it over; nil does nothing. The member is the
	// one that it happens to, or whose number says which of several hubs it happens to.
	begin, end func(*lab, *member) error
}

// diskFull takes a file system of the hub's own.
const diskFull = "the hub's disk is full"

// faultsOf are the faults of a fleet with one hub, or with several on one etcd.
func faultsOf(hubs int) []fault {
	if hubs > 1 {
		return append(faultsOfReplicas, allFaults...)
	}
	return append(faultsOfEmbeddedStore, allFaults...)
}

// hubRestored is a fault after which the hub knows what it did when the fault began.
const hubRestored = "the hub's machine is lost, and it is restored from a backup"

var faultsOfEmbeddedStore = []fault{
	{hubRestored, "hub", loseHub, restoreHub},
	{"the hub is killed in the midst of a write to its log", "hub", tearLog, startHub},
	{diskFull, "hub", fillDisk, emptyDisk},
}

var faultsOfReplicas = []fault{
	{"the hubs are replaced one after the other", "hub", nil, replaceHubs},
	{"a member of the store is killed", "store", killMember, startMember},
	{"a member of the store stands still", "store", memberGets(syscall.SIGSTOP), memberGets(syscall.SIGCONT)},
}

var allFaults = []fault{
	{"the hub is killed", "hub", killHub, startHub},
	{"the hub ends in order and comes back", "hub", stopHub, startHub},
	{"the hub stands still", "hub", hubGets(syscall.SIGSTOP), hubGets(syscall.SIGCONT)},
	{"the hub's files are damaged", "hub", damageFiles, startHub},
	{"the agent is killed", "agent", killAgent, startAgent},
	{"the agent stands still", "agent", agentGets(syscall.SIGSTOP), agentGets(syscall.SIGCONT)},
	{"the agent's certificate is damaged", "agent", identity(halve("tls.crt")), startAgent},
	{"the agent's key is damaged", "agent", identity(halve("tls.key")), startAgent},
	{"the agent's kubeconfig is damaged", "agent", identity(halve("kubeconfig")), startAgent},
	{"the agent's certificate has expired", "agent", identity((*lab).expire), startAgent},
	{"the agent's identity is lost", "agent", identity(func(_ *lab, of map[string][]byte) error {
		clear(of)
		return nil
	}), startAgent},
	{"the agent's machine starts with a wrong clock", "agent", startWrong, startRight},
	{"connections to the hub break", "network", toHub((*link).cut), nil},
	{"the hub can't be reached", "network", toHub((*link).close), toHub((*link).heal)},
	{"the network to the hub is slow", "network", toHub((*link).slow), toHub((*link).heal)},
	{"the network to the hub is silent", "network", toHub((*link).silence), toHub((*link).heal)},
	{"the hub's answers are lost", "network", toHub((*link).deafen), toHub((*link).heal)},
	{"the hub's answers to users are lost", "users", ofUsers((*link).deafen), ofUsers((*link).heal)},
	{"connections of users break", "users", ofUsers((*link).cut), nil},
	{"connections to the cluster break", "cluster", toCluster((*link).cut), nil},
	{"the cluster can't be reached", "cluster", toCluster((*link).close), toCluster((*link).heal)},
	{"the network to the cluster is slow", "cluster", toCluster((*link).slow), toCluster((*link).heal)},
	{"the cluster's answers are lost", "cluster", toCluster((*link).deafen), toCluster((*link).heal)},
	{"the cluster refuses writes", "cluster", refuseWrites(true), refuseWrites(false)},
}

func killHub(l *lab, m *member) error   { return of(l.hubs, m).Kill() }
func stopHub(l *lab, m *member) error   { return of(l.hubs, m).Stop() }
func startHub(l *lab, m *member) error  { return of(l.hubs, m).Restart() }
func killAgent(_ *lab, m *member) error { return m.agent.Kill() }

func startAgent(_ *lab, m *member) error { return m.agent.Restart() }

func hubGets(s syscall.Signal) func(*lab, *member) error {
	return func(l *lab, m *member) error { return syscall.Kill(of(l.hubs, m).PID(), s) }
}

func agentGets(s syscall.Signal) func(*lab, *member) error {
	return func(_ *lab, m *member) error { return syscall.Kill(m.agent.PID(), s) }
}

func toHub(change func(*link)) func(*lab, *member) error {
	return func(_ *lab, m *member) error { change(m.toHub); return nil }
}

func toCluster(change func(*link)) func(*lab, *member) error {
	return func(_ *lab, m *member) error { change(m.toCluster); return nil }
}

func ofUsers(change func(*link)) func(*lab, *member) error {
	return func(l *lab, _ *member) error { change(l.users); return nil }
}

// refuser is a cluster's API server, which refuses every other write while it refuses.
type refuser struct {
	http.Handler
	refusing atomic.Bool
	writes   atomic.Int64
}

func (f *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && f.refusing.Load() && f.writes.Add(1)%2 == 0 {
		http.Error(w, "a write that a test refuses", http.StatusInternalServerError)
		return
	}
	f.Handler.ServeHTTP(w, r)
}

func refuseWrites(refusing bool) func(*lab, *member) error {
	return func(_ *lab, m *member) error { m.server.refusing.Store(refusing); return nil }
}

// faultsAndWrites lets users write, and something go wrong meanwhile. It returns what went
// wrong.
func (l *lab) faultsAndWrites() (injected []string) {
	type plan struct {
		fault
		member *member
		before int           // the number of the write before which it begins
		ends   time.Duration // after it has begun
	}
	writes := 4 + l.rand.IntN(6)
	var plans []plan
	for more := true; more; more = l.rand.IntN(2) == 0 {
		p := plan{
			fault: l.faults[l.rand.IntN(len(l.faults))], member: l.members[l.rand.IntN(len(l.members))],
			before: l.rand.IntN(writes), ends: time.Duration(50+l.rand.IntN(2500)) * time.Millisecond,
		}
		if !slices.ContainsFunc(plans, func(other plan) bool { return other.of == p.of }) {
			plans = append(plans, p)
			injected = append(injected, p.name)
		}
	}
	// A backup is made between two writes here. It would be made in the midst of an apply or
	// of a join, and a cluster that it does not have is the administrator's to make again.
	restored := slices.Contains(injected, hubRestored)
	joins := -1
	if len(l.members) < maxClusters && l.rand.IntN(8) == 0 && !restored {
		joins = l.rand.IntN(writes)
	}
	finish := func() {}
	if l.rand.IntN(5) == 0 && !restored {
		finish = l.writeInfrastructure()
	}
	var over errgroup.Group
	for i := range writes {
		if i == joins {
			l.onboard()
		}
		for _, p := range plans {
			if p.before != i {
				continue
			}
			l.note("%s, at %s, for %s", p.name, p.member.name, p.ends)
			l.troubled = p.member
			if p.begin != nil {
				testkit.Must(l.t, p.begin(l, p.member))
			}
			if p.end != nil {
				over.Go(func() error {
					<-time.After(p.ends)
					return p.end(l, p.member)
				})
			}
		}
		l.write()
	}
	testkit.Must(l.t, over.Wait())
	if restored {
		for _, m := range l.members {
			testkit.Must(l.t, l.recognise(m))
		}
	}
	finish()
	return injected
}

// identity kills an agent and changes the identity that it keeps in its cluster.
func identity(change func(*lab, map[string][]byte) error) func(*lab, *member) error {
	return func(l *lab, m *member) error {
		if err := m.agent.Kill(); err != nil {
			return err
		}
		ctx, s := context.Background(), &corev1.Secret{}
		key := client.ObjectKey{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret}
		if err := m.client.Get(ctx, key, s); err != nil || len(s.Data) == 0 {
			return client.IgnoreNotFound(err) // it has none, or not again yet
		}
		if err := change(l, s.Data); err != nil {
			return err
		}
		return m.client.Update(ctx, s)
	}
}

// halve loses the second half of a part of the identity.
func halve(part string) func(*lab, map[string][]byte) error {
	return func(_ *lab, of map[string][]byte) error {
		of[part] = of[part][:len(of[part])/2]
		return nil
	}
}

// expire has the hub's authority sign a certificate that is like the agent's, but was
// valid until a minute ago.
func (l *lab) expire(of map[string][]byte) error {
	pki := filepath.Join(l.hubDir, "hub-0", "pki")
	authority, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(of["tls.crt"], of["tls.key"])
	if err != nil {
		return nil // it is damaged, or not there yet
	}
	expired := *pair.Leaf
	expired.NotBefore, expired.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	der, err := x509.CreateCertificate(rand.Reader, &expired, authority.Leaf, expired.PublicKey, authority.PrivateKey)
	of["tls.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return err
}

// damageFiles kills a hub and loses the second half of the files that it can make again.
func damageFiles(l *lab, m *member) error {
	if err := killHub(l, m); err != nil {
		return err
	}
	dir := filepath.Dir(of(l.hubs, m).Kubeconfig)
	for _, file := range []string{"admin.kubeconfig", "pki/serving.crt", "pki/serving.key", "pki/ca-bundle.crt"} {
		file = filepath.Join(dir, filepath.FromSlash(file))
		info, err := os.Stat(file)
		if err == nil {
			err = os.Truncate(file, info.Size()/2)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// afterBackup is how long what was written after a backup has, to come to the clusters.
const afterBackup = 500 * time.Millisecond

// loseHub backs a hub up, lets users write what is not in the backup, kills the hub, and
// removes all that it had.
func loseHub(l *lab, _ *member) error {
	if err := os.Remove(l.backup()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dir := filepath.Join(l.hubDir, "hub-0")
	err := l.run("hub", "backup", "--data-dir", dir, "--passphrase-file", l.passphrase(), "--output", l.backup())
	if err != nil {
		return err
	}
	before := l.model.clone()
	for range 3 {
		l.write()
	}
	<-time.After(afterBackup)
	l.model = before
	return errors.Join(l.hubs[0].Kill(), os.RemoveAll(dir))
}

func restoreHub(l *lab, m *member) error {
	dir := filepath.Join(l.hubDir, "hub-0")
	if err := l.run("hub", "restore", l.backup(), "--data-dir", dir, "--passphrase-file", l.passphrase()); err != nil {
		return err
	}
	return startHub(l, m)
}

// recognise does for a cluster what an administrator does after a restore: the hub knows the agent
// that the cluster had at the time of the backup, and refuses a later one.
func (l *lab) recognise(m *member) error {
	ctx, s, mc := context.Background(), &corev1.Secret{}, &clusterv1.ManagedCluster{}
	key := client.ObjectKey{Namespace: cluster.AgentNamespace, Name: cluster.HubKubeconfigSecret}
	if err := m.client.Get(ctx, key, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := l.admin.Get(ctx, client.ObjectKey{Name: m.name}, mc); err != nil {
		return client.IgnoreNotFound(err)
	}
	agent := string(s.Data[cluster.AgentNameKey])
	if agent == "" || !cluster.Replaced(mc.Annotations, agent) {
		return nil
	}
	l.note("the agent of %s is let in again", m.name)
	change := client.MergeFrom(mc.DeepCopy())
	mc.Annotations[cluster.AgentAnnotation] = agent
	return l.admin.Patch(ctx, mc, change)
}

func (l *lab) run(args ...string) error {
	if out, err := exec.Command(l.muster, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("muster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (l *lab) backup() string { return filepath.Join(l.hubDir, "backup") }

// passphrase is the file with the secret of the backups.
func (l *lab) passphrase() string { return l.secret("passphrase") }

// tearLog kills the hub and adds to the log of its store the beginning of a record whose
// rest never came to the disk.
func tearLog(l *lab, m *member) error {
	if err := killHub(l, m); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(l.hubDir, "hub-0", "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		return errors.Join(err, errors.New("the store has no log"))
	}
	slices.Sort(logs)
	f, err := os.OpenFile(logs[len(logs)-1], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// A record is its length, in the lower 56 bits, with the length of what follows it for
	// alignment, in the upper 8, and its bytes. The rest of the file is zero.
	end := int64(0)
	for {
		var length int64
		err := binary.Read(io.NewSectionReader(f, end, 8), binary.LittleEndian, &length)
		if errors.Is(err, io.EOF) || length == 0 {
			break
		} else if err != nil {
			return fmt.Errorf("read the log %s at %d: %w", f.Name(), end, err)
		}
		padding := int64(0)
		if length < 0 {
			padding = int64(uint64(length)>>56) & 7
		}
		end += 8 + int64(uint64(length)&^(0xff<<56)) + padding
	}
	const whole, written = 4096, 100
	torn := binary.LittleEndian.AppendUint64(nil, whole)
	for range written {
		torn = append(torn, 0x2a)
	}
	_, err = f.WriteAt(torn, end)
	return err
}

// makeDisk is a folder on a file system of its own, if this process may make one.
func (l *lab) makeDisk() string {
	dir := l.t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m"); err != nil {
		l.t.Logf("the disk is never full in this run, as that takes a file system of its own: %v", err)
		l.faults = slices.DeleteFunc(l.faults, func(f fault) bool { return f.name == diskFull })
		return dir
	}
	l.t.Cleanup(func() { testkit.Must(l.t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func (l *lab) ballast() string { return filepath.Join(l.hubDir, "ballast") }

func fillDisk(l *lab, _ *member) error {
	f, err := os.Create(l.ballast())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		} else if err != nil {
			block = block[:len(block)/2]
		}
	}
	return nil
}

// emptyDisk makes room. A hub that gave up meanwhile is started again by serving.
func emptyDisk(l *lab, _ *member) error {
	l.mayHaveEnded = true
	return os.Remove(l.ballast())
}
