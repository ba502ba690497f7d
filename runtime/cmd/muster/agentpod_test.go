package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/devcluster"
)

// A pod of a dev cluster chooses the arguments of an agent in the cluster's own
// process, and may name no file of this machine by them.
func TestPodsAgentUsesNoFileButThePods(t *testing.T) {
	file := func(name string) (string, error) {
		if inside, ok := strings.CutPrefix(name, "/pod/"); ok {
			return "/volumes/" + inside, nil
		}
		return "", errors.New("not the pod's")
	}
	for _, tc := range []struct {
		args []string
		want []string // nil for a refusal
	}{
		{[]string{"--bootstrap-kubeconfig=/pod/a"}, []string{"/volumes/a"}},
		{[]string{"--bootstrap-kubeconfig", "/pod/a"}, []string{"/volumes/a"}},
		{[]string{"--bootstrap-kubeconfigs=/pod/a,/pod/b"}, []string{"/volumes/a", "/volumes/b"}},
		{nil, []string{}},
		{[]string{"--bootstrap-kubeconfig=/etc/a"}, nil},
		{[]string{"--bootstrap-kubeconfig", "/etc/a"}, nil},
		{[]string{"--bootstrap-kubeconfig=/pod/a", "--bootstrap-kubeconfig=/etc/a"}, nil},
		{[]string{"--bootstrap-kubeconfigs=/pod/a,/etc/b"}, nil},
		{[]string{"--bootstrap-kubeconfigs=/pod/a", "--bootstrap-kubeconfigs=/etc/b"}, nil},
		{[]string{"--kubeconfig=/etc/admin.conf"}, nil},
		{[]string{"--log-file=/etc/x"}, nil},
	} {
		o, err := podsAgent(devcluster.AgentPod{Args: append(tc.args, "--health-address=:1", "--hub-kubeconfig-dir=/etc"), File: file})
		if tc.want == nil {
			if err == nil {
				t.Errorf("%q: not refused", tc.args)
			}
			continue
		}
		got := slices.DeleteFunc(append([]string{o.BootstrapKubeconfig}, o.BootstrapKubeconfigs...), func(s string) bool { return s == "" })
		if err != nil || !slices.Equal(got, tc.want) || o.HealthAddress != "" || o.HubKubeconfigDir != "" {
			t.Errorf("%q: got %q, %v, %q, %q", tc.args, got, err, o.HealthAddress, o.HubKubeconfigDir)
		}
	}
}
