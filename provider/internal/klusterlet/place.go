package klusterlet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
)

// place is which cluster an agent is in, and where that cluster was reached. A
// cluster that was rebuilt has another UID at its old address; one at another
// address with another UID counts as another cluster.
type place struct {
	Host string `json:"host"`
	UID  string `json:"uid"`
}

// privatePlace is the key of the place in a resource's private state.
const privatePlace = "place"

// placeIn reads the place that is kept with a resource; empty when there is none.
func placeIn(ctx context.Context, private crud.PrivateReader, diags *diag.Diagnostics) place {
	var p place
	raw, problems := private.GetKey(ctx, privatePlace)
	diags.Append(problems...)
	if raw != nil {
		_ = json.Unmarshal(raw, &p) // what can't be read is as if it were not there
	}
	return p
}

// keep stores the place with a resource.
func (p place) keep(ctx context.Context, private crud.PrivateWriter, diags *diag.Diagnostics) {
	raw, err := json.Marshal(p)
	if err == nil {
		diags.Append(private.SetKey(ctx, privatePlace, raw)...)
	}
}

// other reports whether found is another cluster than p, and not p after it was
// rebuilt.
func (p place) other(found place) bool {
	return p.UID != "" && found.UID != p.UID && found.Host != p.Host
}

// place asks the cluster that the connection leads to who it is.
func (a *agent) place(ctx context.Context) (place, error) {
	namespace := &corev1.Namespace{}
	if err := a.client.Get(ctx, namespace, "", metav1.NamespaceSystem); err != nil {
		return place{}, fmt.Errorf("telling which cluster it is by its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return place{Host: a.client.Host(), UID: string(namespace.UID)}, nil
}

// checkPlace refuses a connection that leads to another cluster than it should.
// was is where the agent was; wanted is what the configuration says about the
// cluster's UID.
func checkPlace(name string, was, found place, wanted types.String, diags *diag.Diagnostics) bool {
	switch {
	case !wanted.IsNull() && !wanted.IsUnknown() && wanted.ValueString() != found.UID:
		diags.AddAttributeError(path.Root("cluster_uid"), fmt.Sprintf("cluster_connection does not lead to the "+
			"cluster of cluster_uid, for %q", name),
			fmt.Sprintf("cluster_uid is %q, and the cluster at %s is %q by the UID of its namespace kube-system. "+
				"Correct cluster_connection; or, if that is the cluster which has the name %q from now on, set "+
				"cluster_uid to its UID.", wanted.ValueString(), found.Host, found.UID, name))
		return false
	case wanted.IsNull() && was.other(found):
		diags.AddAttributeError(path.Root("cluster_connection"), fmt.Sprintf("cluster_connection of %q leads to "+
			"another cluster", name),
			fmt.Sprintf("The agent of %q was installed in the cluster at %s, whose namespace kube-system has the UID "+
				"%q. The connection now leads to %s, which has %q. Two clusters can't share a name: the hub serves "+
				"one agent for each name. "+
				"To add that cluster, give it a name and a resource of its own. If it replaces the other one, for "+
				"example after a rebuild at another address, set cluster_uid = %q: "+
				"the agent then joins from there, and the hub stops serving the "+
				"previous one.", name, was.Host, was.UID, found.Host, found.UID, found.UID))
		return false
	}
	return true
}
