package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
)

// Others on the hub's machine read none of its state and reach its store by no
// port.
func TestOthersOnTheMachine(t *testing.T) {
	dir := filepath.Dir(hub.process.Kubeconfig)
	var open []error
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file of the store
		}
		if err == nil && path == dir && info.Mode().Perm() != 0o700 {
			open = append(open, fmt.Errorf("%s has the mode %o", path, info.Mode().Perm()))
		}
		if err == nil && strings.HasSuffix(path, ".key") && info.Mode().Perm()&0o077 != 0 {
			open = append(open, fmt.Errorf("%s has the mode %o", path, info.Mode().Perm()))
		}
		return err
	}))
	info, err := os.Stat(hub.process.Kubeconfig)
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		open = append(open, fmt.Errorf("the kubeconfig has the mode %o", info.Mode().Perm()))
	}
	harmless(t, "another user reads the hub's files", errors.Join(open...))

	ports := listening(t, hub.process.PID())
	err = nil
	if len(ports) != 1 || !strings.HasSuffix(hub.Admin.Host, ":"+strconv.Itoa(ports[0])) {
		err = fmt.Errorf("the hub at %s listens on the ports %v", hub.Admin.Host, ports)
	}
	harmless(t, "another user looks for the store's port", err)
}

// listening are the TCP ports on which a process listens.
func listening(t *testing.T, pid int) (ports []int) {
	t.Helper()
	sockets := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	testkit.Must(t, err)
	if len(links) == 0 {
		t.Skip("this system has no /proc: which ports a process listens on can't be found out")
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		testkit.Must(t, err)
		defer func() { _ = f.Close() }()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" || !sockets[fields[9]] { // 0A is LISTEN
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseInt(hex, 16, 32)
			testkit.Must(t, err)
			ports = append(ports, int(port))
		}
	}
	return ports
}

// A hub with many watchers ends when it is asked to, and a killed one has lost
// nothing that it had confirmed.
func TestManyWatchersAndAnEnd(t *testing.T) {
	w := ownWorld(t)
	k := testfleet.Clientset(t, w.Admin)
	ctx := context.Background()
	for range 200 {
		stream, err := k.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		testkit.Must(t, err)
		t.Cleanup(stream.Stop)
		go func(events <-chan watch.Event) {
			for range events { // what they say does not matter
			}
		}(stream.ResultChan())
	}
	for i := range 20 {
		_, err := k.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("kept-%d", i)}}, metav1.CreateOptions{})
		testkit.Must(t, err)
	}
	testkit.Must(t, w.process.Kill())
	testkit.Must(t, w.process.Restart())
	list, err := k.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	testkit.Must(t, err)
	kept := 0
	for _, c := range list.Items {
		if strings.HasPrefix(c.Name, "kept-") {
			kept++
		}
	}
	if kept != 20 {
		err = fmt.Errorf("%d of 20 objects are left", kept)
	}
	harmless(t, "a kill loses what was confirmed", err)
	for range 200 {
		stream, err := k.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		testkit.Must(t, err)
		t.Cleanup(stream.Stop)
	}
	harmless(t, "200 watchers keep the hub from ending", w.process.Stop())
}
