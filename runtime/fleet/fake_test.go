package fleet

import (
	"context"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// TestMain makes the test's own binary play the muster program: started as
// `muster hub` or `muster devcluster` it does with its data directory, its port,
// its output and its signals what these do, and serves nothing but /readyz.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "hub" || os.Args[1] == "devcluster") {
		if err := playMuster(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// argsFile in a data directory holds the arguments of the last process, one a line.
const argsFile = "args"

// misbehaviourFile in a data directory tells the process how to misbehave.
const misbehaviourFile = "misbehave"

func playMuster(command string, args []string) error {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	path := flags.String("data-dir", "", "")
	port := flags.Int("secure-port", 0, "")
	flags.String("name", "", "")
	flags.String("bind-address", "", "")
	flags.String("feature-gates", "", "")
	flags.Bool("cluster-import-allow-loopback", false, "")
	externalURL := flags.String("external-url", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir, err := datadir.Open(*path, "fake")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := os.WriteFile(dir.Path(argsFile), []byte(strings.Join(args, "\n")), 0o600); err != nil {
		return err
	}
	misbehaviour, _ := os.ReadFile(dir.Path(misbehaviourFile))
	switch string(misbehaviour) {
	case "refuse":
		fmt.Fprintln(os.Stderr, "time=now level=INFO msg=starting")
		return errors.New("the moon is in the wrong phase")
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "ignore SIGTERM":
		stop()
		signal.Ignore(syscall.SIGTERM)
		ctx = context.Background()
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
		}
	}))
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	url := server.URL
	if *externalURL != "" {
		url = *externalURL
	}
	content, err := kubeconfig.Config{
		Cluster: "fake", User: "admin", Server: url,
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}.YAML()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(dir.Path(kubeconfigFile), content, 0o600); err != nil {
		return err
	}
	what := strings.TrimPrefix(command, "dev")
	fmt.Printf("%s ready %s kubeconfig %s\n", what, url, dir.Path(kubeconfigFile))
	<-ctx.Done()
	return nil
}

// testFleet is a fleet of such processes in a folder of its own, all stopped at
// the test's end.
func testFleet(t *testing.T) (f *Fleet, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fleet")
	t.Cleanup(func() {
		again := open(t, path)
		defer again.Close()
		if _, err := again.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	f = open(t, path)
	t.Cleanup(f.Close)
	return f, path
}

func open(t *testing.T, path string) *Fleet {
	t.Helper()
	f, err := Open(path, "") // the running program, which is this test
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// misbehave tells the next process of a member how to.
func misbehave(t *testing.T, path, member, how string) {
	t.Helper()
	dir := memberDir(path, member)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, misbehaviourFile), []byte(how), 0o600); err != nil {
		t.Fatal(err)
	}
}

func behave(t *testing.T, path, member string) {
	t.Helper()
	if err := os.Remove(filepath.Join(memberDir(path, member), misbehaviourFile)); err != nil {
		t.Fatal(err)
	}
}

func memberDir(path, member string) string {
	if member == HubName {
		return filepath.Join(path, hubFolder)
	}
	return filepath.Join(path, clustersFolder, member)
}
