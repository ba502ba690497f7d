package agent

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	addonregistration "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// Validate names every option that can't be used, and what to do about it.
func (o *Options) Validate() error {
	return errors.Join(
		features.Check(o.Features),
		o.validateClusterName(),
		label("--namespace", o.Namespace, "it names a namespace of the managed cluster"),
		o.validateAgentID(),
		o.validateManagedCluster(),
		o.validateCertificate(),
		o.validateClaims(),
		o.validateURLs(),
		o.validateHubs(),
		o.validateClientID(),
		o.validateWorks(),
		o.validateAddOns(),
		o.validateHealth(),
	)
}

// label checks a name that has to be a DNS label.
func label(flag, value, because string) error {
	if value == "" {
		return fmt.Errorf("%s is empty, but %s: give a name of 1 to 63 lower-case letters, digits and hyphens", flag, because)
	}
	if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
		return fmt.Errorf("%s %q cannot be used, as %s and %s: use 1 to 63 lower-case letters, digits and hyphens, with a letter or "+
			"digit at both ends",
			flag, value, because, strings.Join(problems, "; "))
	}
	return nil
}

func (o *Options) validateClusterName() error {
	if o.ClusterName == "" {
		return nil
	}
	if err := label("--cluster-name", o.ClusterName, "it names a namespace on the hub"); err != nil {
		return err
	}
	if err := cluster.ReservedName(o.ClusterName); err != nil {
		return fmt.Errorf("--cluster-name %q cannot be used: %w", o.ClusterName, err)
	}
	return nil
}

func (o *Options) validateHubs() error {
	several := o.Features.Enabled(features.MultipleHubs)
	switch n := len(o.BootstrapKubeconfigs); {
	case n > 0 && !several:
		return errors.New("--bootstrap-kubeconfigs needs --feature-gates MultipleHubs=true: " +
			"turn the gate on, or give one hub with --bootstrap-kubeconfig")
	case several && n < 2:
		return fmt.Errorf("--feature-gates MultipleHubs=true needs two hubs or more, and --bootstrap-kubeconfigs names %d: name more, or turn the gate off",
			n)
	case several && o.BootstrapKubeconfig != "":
		return fmt.Errorf("--bootstrap-kubeconfig %s and --bootstrap-kubeconfigs exclude each other: put all hubs into the latter",
			o.BootstrapKubeconfig)
	case o.HubConnectionTimeoutSeconds < 10:
		return fmt.Errorf("--hub-connection-timeout-seconds %d is too short to distinguish an outage from a hiccup: use 10 or more",
			o.HubConnectionTimeoutSeconds)
	}
	return nil
}

func (o *Options) validateClientID() error {
	several := len(o.BootstrapKubeconfigs) > 0
	switch {
	case o.ClientID != "" && o.ClusterName != "":
		return fmt.Errorf("--client-id %s and --cluster-name %s exclude each other: the hub finds the cluster's name by its client ID",
			o.ClientID, o.ClusterName)
	case len(o.RegistrationLabels) > 0 && o.ClusterName != "":
		return fmt.Errorf("--registration-label has no effect with --cluster-name %s: "+
			"the labels are for a cluster that the hub creates for a client ID", o.ClusterName)
	case several && (o.ClientID != "" || len(o.RegistrationLabels) > 0):
		return errors.New("--client-id and --registration-label exclude --bootstrap-kubeconfigs, " +
			"as each hub may call the cluster by another name: name it with --cluster-name")
	case several && o.DeleteBootstrapSecret:
		return errors.New("--delete-bootstrap-secret excludes --bootstrap-kubeconfigs, which are files: leave it out")
	}
	var problems []error
	if o.ClientID != "" {
		if err := cluster.CheckClientID(o.ClientID); err != nil {
			problems = append(problems, fmt.Errorf("--client-id: %w", err))
		}
	}
	if err := cluster.CheckChosenLabels(o.RegistrationLabels); err != nil {
		problems = append(problems, fmt.Errorf("--registration-label: %w", err))
	}
	return errors.Join(problems...)
}

func (o *Options) validateAgentID() error {
	if o.AgentID == "" {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(o.AgentID); len(problems) > 0 {
		return fmt.Errorf("--agent-id %q cannot be used, as it becomes a part of the agent's user name on the hub: "+
			"use lower-case letters, digits, hyphens and dots, or leave it out for a random one", o.AgentID)
	}
	return nil
}

func (o *Options) validateManagedCluster() error {
	if o.ManagedCluster == nil {
		return errors.New("there is no access to the managed cluster: give its kubeconfig with --kubeconfig, or run the agent in a pod " +
			"of the cluster")
	}
	return nil
}

func (o *Options) validateCertificate() error {
	if n := o.ClientCertExpirationSeconds; n != 0 && n < certificate.MinExpiration {
		return fmt.Errorf("--client-cert-expiration-seconds %d is too short a life for a certificate: use %d or more, or 0 to leave it to the hub",
			n, certificate.MinExpiration)
	}
	return nil
}

func (o *Options) validateClaims() error {
	if o.MaxCustomClusterClaims < 0 {
		return fmt.Errorf("--max-custom-cluster-claims %d is negative: use 1 or more, or leave it out for %d",
			o.MaxCustomClusterClaims, status.DefaultMaxCustomClaims)
	}
	for _, s := range o.ReservedClusterClaimSuffixes {
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(s, ".")); len(problems) > 0 {
			return fmt.Errorf("--reserved-cluster-claim-suffixes has %q, which no claim's name can end with: use the end of a DNS name, such as example.com",
				s)
		}
	}
	return nil
}

func (o *Options) validateURLs() error {
	for _, s := range o.ExternalServerURLs {
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--spoke-external-server-urls has %q, which the hub does not take as an address of a cluster: "+
				"use a URL such as https://api.example.com:6443", s)
		}
	}
	return nil
}

func (o *Options) validateWorks() error {
	var problems []error
	if o.EvictionGracePeriod < 0 {
		problems = append(problems, fmt.Errorf("--appliedmanifestwork-eviction-grace-period %s is negative: use 0s or more, or leave it out for %s",
			o.EvictionGracePeriod, work.DefaultEvictionGracePeriod))
	}
	if o.MaxJSONRawLength < 0 {
		problems = append(problems, fmt.Errorf("--max-json-raw-length %d is negative: use 1 or more, or leave it out for %d bytes",
			o.MaxJSONRawLength, work.DefaultMaxJSONRawLength))
	}
	return errors.Join(problems...)
}

func (o *Options) validateAddOns() error {
	var problems []error
	if d := o.AddOnKubeClientRegistrationAuth; d != addonregistration.DriverCSR && d != addonregistration.DriverToken {
		problems = append(problems, fmt.Errorf("--addon-kubeclient-registration-auth %q is unknown: use %s for client certificates, or %s for tokens",
			d, addonregistration.DriverCSR, addonregistration.DriverToken))
	}
	if n := o.AddOnTokenExpirationSeconds; n < addonregistration.MinTokenExpiration || n > math.MaxInt32 {
		problems = append(problems, fmt.Errorf("--addon-token-expiration-seconds %d is not a lifetime of a token: use %d to %d, or leave it out for %d",
			n, addonregistration.MinTokenExpiration, math.MaxInt32, addonregistration.DefaultTokenExpiration))
	}
	return errors.Join(problems...)
}

func (o *Options) validateHealth() error {
	if o.ClusterHealthCheckPeriod < time.Second {
		return fmt.Errorf("--cluster-healthcheck-period %s is too short: use 1s or more", o.ClusterHealthCheckPeriod)
	}
	if o.HealthAddress == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.HealthAddress); err != nil {
		return fmt.Errorf("--health-address %q is not an address to listen on (%w): use one such as :8000 or 127.0.0.1:8000",
			o.HealthAddress, err)
	}
	return nil
}
