package controlplane

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/atomicfile"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/datadir"
)

// Audit says what is noted of requests, and where.
type Audit struct {
	// LogPath is the file for the notes, "-" the standard output; empty writes none.
	LogPath string
	// MaxSize is the size in MB at which the file is compressed and another one begun,
	// MaxBackups how many of those stay, and MaxAge for how many days; 0 is for ever.
	MaxSize, MaxBackups, MaxAge int
	// PolicyFile is a Policy of audit.k8s.io that says what is noted; Policy by default.
	PolicyFile string
	// WebhookConfigFile is a kubeconfig that leads to a server that takes the notes.
	WebhookConfigFile string
}

// Policy is what an Audit notes by default: who has changed what, and who has read Secrets,
// but neither their content nor what the server and the agents of clusters do by themselves.
//
//go:embed auditpolicy.yaml
var Policy []byte

func (a Audit) enabled() bool { return a.LogPath != "" || a.WebhookConfigFile != "" }

func (a Audit) validate() error {
	if a.PolicyFile != "" {
		if !a.enabled() {
			return fmt.Errorf("--audit-policy-file %q is given, and nothing takes what it asks for: "+
				"give --audit-log-path or --audit-webhook-config-file, too", a.PolicyFile)
		}
		if _, err := auditpolicy.LoadPolicyFromFile(a.PolicyFile); err != nil {
			return fmt.Errorf("--audit-policy-file: %s: give a Policy of audit.k8s.io/v1", oneLine(err))
		}
	}
	for flag, n := range map[string]int{"maxsize": a.MaxSize, "maxbackup": a.MaxBackups, "maxage": a.MaxAge} {
		if n < 0 {
			return fmt.Errorf("--audit-log-%s %d is negative: give 0 for no limit, or more", flag, n)
		}
	}
	if a.WebhookConfigFile != "" {
		if _, err := clientcmd.LoadFromFile(a.WebhookConfigFile); err != nil {
			return fmt.Errorf(
				"--audit-webhook-config-file %q: %s: give a kubeconfig that leads to a server that takes audit events",
				a.WebhookConfigFile,
				oneLine(err),
			)
		}
	}
	return nil
}

// apply sets the API server's options.
func (a Audit) apply(o *genericoptions.AuditOptions, dir *datadir.Dir) error {
	if !a.enabled() {
		return nil
	}
	o.PolicyFile = a.PolicyFile
	if o.PolicyFile == "" {
		o.PolicyFile = dir.Path("run", "audit-policy.yaml")
		if err := os.MkdirAll(dir.Path("run"), 0o700); err != nil {
			return err
		}
		if err := atomicfile.Write(o.PolicyFile, Policy, 0o600); err != nil {
			return err
		}
	}
	if a.LogPath != "" && a.LogPath != "-" {
		if err := os.MkdirAll(filepath.Dir(a.LogPath), 0o700); err != nil {
			return fmt.Errorf("make the folder of --audit-log-path: %w", err)
		}
	}
	o.LogOptions.Path, o.LogOptions.Compress = a.LogPath, true
	o.LogOptions.MaxSize, o.LogOptions.MaxBackups, o.LogOptions.MaxAge = a.MaxSize, a.MaxBackups, a.MaxAge
	o.WebhookOptions.ConfigFile = a.WebhookConfigFile
	return nil
}
