package chaos_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/terraform-provider-muster/internal/lifeline"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
)

// members is how many members the etcd of several hubs has.
const members = 3

// TestMain runs a member of an etcd, or an agent with a wrong clock, instead of tests when it
// is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		commands := map[string]func(args []string) error{testhub.StoreCommand: runMember, agentCommand: runAgent}
		if run := commands[os.Args[1]]; run != nil {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// runMember runs a member of an etcd until the test's process ends.
func runMember(args []string) error {
	c := embed.NewConfig()
	var client, peer string
	flags := flag.NewFlagSet(testhub.StoreCommand, flag.ExitOnError)
	flags.StringVar(&c.Name, "name", "", "the member")
	flags.StringVar(&c.Dir, "data-dir", "", "folder that keeps its state")
	flags.StringVar(&client, "client", "", "URL for clients")
	flags.StringVar(&peer, "peer", "", "URL for the other members")
	flags.StringVar(&c.InitialCluster, "cluster", "", "all members and their URLs")
	flags.String("secure-port", "", "not used: the URLs have the ports")
	_ = flags.Parse(args)
	ctx, remove := lifeline.Follow(context.Background())
	defer func() { _ = remove() }()

	urls := func(s string) []url.URL {
		u, err := url.Parse(s)
		if err != nil {
			panic(err) // of a test's own making
		}
		return []url.URL{*u}
	}
	c.LogLevel = "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = urls(client), urls(client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = urls(peer), urls(peer)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
		fmt.Printf("cluster ready %s kubeconfig none\n", client)
	case err := <-e.Err():
		return err
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// startStore starts an etcd of several members, and returns their URLs as a flag takes
// them.
func (l *lab) startStore() string {
	var names, clients, peers []string
	for i := range members {
		name := "member-" + strconv.Itoa(i)
		peer := "http://" + testkit.FreeAddress(l.t)
		clients = append(clients, "http://"+testkit.FreeAddress(l.t))
		names, peers = append(names, name), append(peers, name+"="+peer)
	}
	l.store = make([]*testhub.Process, members)
	var starting errgroup.Group // each is ready once most of them are there
	for i, name := range names {
		starting.Go(func() error {
			p, err := testhub.StartStore(os.Args[0], filepath.Join(l.hubDir, name),
				"--name", name, "--client", clients[i], "--peer", strings.TrimPrefix(peers[i], name+"="),
				"--cluster", strings.Join(peers, ","))
			if err == nil {
				l.store[i] = p
				l.t.Cleanup(func() { _ = p.Kill() })
			}
			return err
		})
	}
	testkit.Must(l.t, starting.Wait())
	return strings.Join(clients, ",")
}

// secret is a file with a secret.
func (l *lab) secret(name string) string {
	file := filepath.Join(l.hubDir, name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	testkit.Must(l.t, os.WriteFile(file, []byte(rand.Text()+rand.Text()), 0o600))
	return file
}

func killMember(l *lab, m *member) error {
	l.mayHaveEnded = true
	return of(l.store, m).Kill()
}

func startMember(l *lab, m *member) error { return of(l.store, m).Restart() }

// memberGets sends a member a signal. A hub may give up meanwhile that led and can't renew
// its lease in time.
func memberGets(s syscall.Signal) func(*lab, *member) error {
	return func(l *lab, m *member) error {
		l.mayHaveEnded = true
		return syscall.Kill(of(l.store, m).PID(), s)
	}
}

// replaceHubs ends one hub after the other in order, and starts each again before the next
// one ends, as an upgrade does.
func replaceHubs(l *lab, _ *member) error {
	for _, hub := range l.hubs {
		if err := hub.Stop(); err != nil {
			return err
		}
		if err := hub.Restart(); err != nil {
			return err
		}
	}
	return nil
}
