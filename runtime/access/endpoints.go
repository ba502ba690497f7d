package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Endpoints are where users reach a cluster: what an administrator says, or else
// what the agent reports. The problem says why there are none, and what to do about it.
func Endpoints(mc *clusterv1.ManagedCluster) (out []v1alpha1.Endpoint, problem string) {
	if override, ok := mc.Annotations[muster.EndpointsAnnotation]; ok {
		out, err := parseEndpoints(override)
		if err != nil {
			return nil, fmt.Sprintf("the annotation %s of the ManagedCluster %s: %v", muster.EndpointsAnnotation, mc.Name, err)
		}
		return out, ""
	}
	for _, c := range mc.Spec.ManagedClusterClientConfigs {
		if c.URL != "" && len(out) < maxEndpoints {
			out = append(out, v1alpha1.Endpoint{URL: c.URL, CABundle: c.CABundle})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Sprintf("the hub does not know where the API server of the cluster is: start its agent with "+
			"--spoke-external-server-urls, or give the ManagedCluster %s the annotation %s=[{\"url\":\"https://…\",\"caBundle\":\"…\"}]",
			mc.Name, muster.EndpointsAnnotation)
	}
	return out, ""
}

// maxEndpoints is how many endpoints a request may have.
const maxEndpoints = 16

func parseEndpoints(text string) (out []v1alpha1.Endpoint, _ error) {
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("it is not a list of endpoints in JSON: %w", err)
	}
	if len(out) == 0 || len(out) > maxEndpoints {
		return nil, fmt.Errorf("it has %d endpoints, and may have 1 to %d", len(out), maxEndpoints)
	}
	for _, e := range out {
		if u, err := url.Parse(e.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, errors.New("an endpoint's url must begin with https:// and have a host")
		}
	}
	return out, nil
}
