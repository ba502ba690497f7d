package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// The commands for actions speak to a hub through the provider, and fail with one
// error that names what to do.
func TestActionCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	t.Cleanup(func() { _, _, _ = run(t, "down", "--data-dir", dir) })
	if out, errOut, err := run(t, "up", "--data-dir", dir, "--clusters", "1"); err != nil {
		t.Fatalf("up: %v\n%s%s", err, out, errOut)
	}
	for _, x := range []struct {
		args  []string
		fails bool
		says  string
	}{
		{[]string{"wait", "paris", "--timeout", "10s"}, true, `The hub has no ManagedCluster "paris"`},
		{[]string{"wait"}, true, "--cluster-set"},
		{[]string{"deny", "paris"}, true, `There is no managed cluster "paris"`},
		{[]string{"detach", "paris"}, true, `There is no managed cluster "paris"`},
		{[]string{"rotate-certificate", "paris"}, true, `There is no managed cluster "paris"`},
		{[]string{"revoke-token", "abcdef"}, false, "Nothing is to be done."},
		{[]string{"revoke-token", "abcdef.0123456789abcdef"}, true, "A token and not its ID"},
		{[]string{"replay", "paris", "web"}, true, `There is no managed cluster "paris"`},
		{[]string{"resume-rollout", "web"}, true, "NAMESPACE/NAME"},
		{[]string{"rollout", "approve", "shop/web", "production"}, true, `There is no replica set "shop/web"`},
		{[]string{"rollout", "pause", "metrics"}, true, `There is no add-on "metrics"`},
	} {
		out, errOut, err := run(t, append(x.args, "--data-dir", dir)...)
		if (err != nil) != x.fails || !strings.Contains(errOut, x.says) || strings.Contains(errOut, "0123456789") {
			t.Errorf("muster %s: %v, %s%s, want %q", strings.Join(x.args, " "), err, out, errOut, x.says)
		}
	}
}
