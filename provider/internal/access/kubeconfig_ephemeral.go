package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// What all that asks for access has in common: who asks, and the wait.

// defaultWait is how long an answer may take where the configuration does not say.
const defaultWait = 5 * time.Minute

// hubID is the hub's short name, by what it publishes.
func hubID(ctx context.Context, h *hub.Hub, client *kube.Client) (string, error) {
	published, err := h.Published(ctx, client, hubinfo.Name)
	if err != nil {
		return "", err
	}
	if published[hubinfo.HubIDKey] == "" || !hubinfo.Has(published, hubinfo.UserAccess) {
		return "", errors.New("the hub has no user access: it needs to be a muster hub with the feature gate " +
			"UserAccess, which is on by default")
	}
	return published[hubinfo.HubIDKey], nil
}

// whoami is the user that the provider is to the hub.
func whoami(ctx context.Context, client *kube.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the hub who asks: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// refusedError is that of a request that gets no answer.
type refusedError struct{ text string }

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// await waits until a request is issued. It fails as soon as it is refused, and
// request holds what was seen last.
func await(ctx context.Context, client *kube.Client, request request) error {
	return client.Wait(ctx, request, request.Namespace, request.Name, func(exists bool) (bool, error) {
		if !exists {
			return false, &refusedError{"the request was deleted meanwhile"}
		}
		state, text := useraccess.Progress(request, time.Now())
		if state == useraccess.Refused {
			return false, &refusedError{text}
		}
		return state == useraccess.Issued, nil
	})
}

// describe says why there is no answer.
func describe(client *kube.Client, request request, timeout time.Duration, err error) string {
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return attribute.Capitalize(refused.text) + "."
	case hub.IsTimeout(err):
		_, text := useraccess.Progress(request, time.Now())
		return fmt.Sprintf("There was no answer within %s: %s.\n\n%s\n\nNext:\n  kubectl describe accessrequest -n "+
			"%s %s",
			attribute.ShortDuration(timeout), text, hub.DescribeConditions(request.Status.Conditions, time.Now()),
			request.Namespace, request.Name)
	default:
		return hub.Explain(client.Host(), "wait for the answer", err)
	}
}

// lastWarning is how long before the end of access Terraform is warned.
const lastWarning = time.Minute

// opened is what Renew and Close need to know.
type opened struct {
	Requests []objectName `json:"requests"`
	NotAfter time.Time    `json:"notAfter"`
}

// NewKubeconfig is the ephemeral resource muster_cluster_kubeconfig.
func NewKubeconfig() ephemeral.EphemeralResource {
	k := crud.Ephemeral[opened]{
		Type: "cluster_kubeconfig",
		Description: "Access to clusters of a logical cloud for one run of Terraform, for example for `provider " +
			"\"kubernetes\"`. Keys are made in memory, and neither they nor the certificates appear in the state or " +
			"in the plan. When the run ends, access is withdrawn; a run that is killed leaves it until `ttl` is " +
			"over.\n\nThe provider's identity on the hub needs the verb `use` on the logical cloud, and a grant that " +
			"names it. The certificate reaches the cluster at the address that its agent reports.",
		Attributes: kubeconfigAttributes,
		Validate:   validateClusters,
		Open:       openKubeconfig,
		// A certificate can't be prolonged, and Terraform takes no other in its place.
		Renew: func(_ context.Context, _ *kube.Client, o opened, diags *diag.Diagnostics) (renewAt time.Time) {
			diags.AddWarning("Access to the clusters ends before the run does",
				fmt.Sprintf("It ends at %s, and the rest of the run will be refused there. Raise ttl of the "+
					"muster_cluster_kubeconfig, as far as the logical cloud allows, and apply again.",
					o.NotAfter.UTC().Format(time.RFC3339)))
			return renewAt
		},
		Close: func(ctx context.Context, client *kube.Client, o opened, diags *diag.Diagnostics) {
			withdraw(ctx, client, diags, o.Requests...)
		},
	}
	return k.New()
}

func kubeconfigAttributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{
		"logical_cloud": attribute.Required("The logical cloud as `namespace/name`: `id` of a "+
			"`muster_logical_cloud`.", validCloud()),
		"managed_cluster": attribute.Optional("One of the cloud's clusters. Either this or `managed_clusters`.",
			attribute.ValidClusterName()),
		"managed_clusters": attribute.OptionalTextSet("Several of the cloud's clusters. Then `host` and the like "+
			"are null, and `clusters` has them by cluster.", setvalidator.SizeAtLeast(1),
			setvalidator.ValueStringsAre(attribute.ValidClusterName())),
		"user": attribute.Optional("User of the hub that gets access, if not the one that the provider is to the "+
			"hub. Asking for another needs the right to impersonate that user.", stringvalidator.LengthBetween(1, 253)),
		"groups": attribute.OptionalTextSet("Groups of `user`, by which grants to groups are found. Only with `user`.",
			setvalidator.SizeAtLeast(1), setvalidator.AlsoRequires(path.MatchRoot("user"))),
		"mode": attribute.Optional("How to get in: by a client `Certificate`, by a service account's `Token`, or "+
			"`Auto` for a certificate where the cluster signs one, and a token elsewhere. Defaults to the one mode "+
			"that the logical cloud allows, or to "+
			"`Auto`.", attribute.OneOf(v1alpha1.AccessCertificate, v1alpha1.AccessToken, v1alpha1.AccessAuto)...),
		"ttl": attribute.Optional("How long access lasts if it is not withdrawn before, such as `1h`: whole seconds "+
			"from `10m`. It can't be prolonged, so it has to last for the whole run. If omitted, what the cloud "+
			"says.", ValidLifetime()),
		"timeout": attribute.Optional(attribute.TimeoutText("the answer", defaultWait),
			attribute.ValidDuration(time.Second)),
		"granted_to": attribute.TextAttribute("User of the hub that has access."),
		"expires_at": attribute.TextAttribute("When access ends, in RFC 3339; the earliest of several."),
		"kubeconfig": schema.StringAttribute{
			MarkdownDescription: "A kubeconfig with a context `USER@CLUSTER` for each cluster, in the cloud's " +
				"namespace.",
			Computed: true, Sensitive: true,
		},
		"clusters": schema.MapNestedAttribute{
			MarkdownDescription: "The way into each cluster, by its name.", Computed: true, Sensitive: true,
			NestedObject: schema.NestedAttributeObject{Attributes: wayInAttributes()},
		},
	}
	maps.Copy(attributes, wayInAttributes())
	return attributes
}

// wayInAttributes are those that the provider "kubernetes" takes.
func wayInAttributes() map[string]schema.Attribute {
	text := func(description string, sensitive bool) schema.StringAttribute {
		return schema.StringAttribute{MarkdownDescription: description, Computed: true, Sensitive: sensitive}
	}
	return map[string]schema.Attribute{
		"host":               text("URL of the cluster's API server.", false),
		"client_certificate": text("Client certificate in PEM. Null with a token.", false),
		"client_key":         text("Key of the certificate in PEM. Null with a token.", true),
		"token":              text("Token. Null with a certificate.", true),
		"cluster_ca_certificate": text("PEM certificates of the authorities that vouch for it. Null where the "+
			"system's do.", false),
	}
}

// wayIn is a credential as those attributes.
func wayIn(c useraccess.Credential) map[string]attr.Value {
	return map[string]attr.Value{
		"host":                   types.StringValue(c.Endpoint.URL),
		"cluster_ca_certificate": attribute.OptionalString(string(c.Endpoint.CABundle)),
		"client_certificate":     attribute.OptionalString(string(c.Certificate)),
		"client_key":             attribute.OptionalString(string(c.Key)),
		"token":                  attribute.OptionalString(c.Token),
	}
}

// validateClusters wants clusters to be named in one of two ways.
func validateClusters(config attribute.Values, diags *diag.Diagnostics) {
	one, several := config["managed_cluster"], config["managed_clusters"]
	switch {
	case one.IsUnknown() || several.IsUnknown():
	case one.IsNull() && several.IsNull():
		diags.AddAttributeError(path.Root("managed_cluster"), "No cluster", "Set managed_cluster to one of the "+
			"cloud's clusters, or managed_clusters to several.")
	case !one.IsNull() && !several.IsNull():
		diags.AddAttributeError(path.Root("managed_clusters"), "Clusters in two ways", "managed_cluster and "+
			"managed_clusters are both set. Remove one of them.")
	}
}

// openKubeconfig makes keys in memory, asks for access with them, and waits for the answers.
func openKubeconfig(ctx context.Context, o *crud.Opening) (note opened, renewAt time.Time) {
	timeout, err := time.ParseDuration(o.Values.Text("timeout"))
	if err != nil {
		timeout = defaultWait
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s := session{Opening: o}
	if err = s.open(waiting); err == nil {
		return s.opened, s.NotAfter.Add(-lastWarning)
	}
	withdraw(ctx, o.Client, o.Diagnostics, s.Requests...)
	cloud := o.Values.Text("logical_cloud")
	if of, ok := errors.AsType[*clusterError](err); ok {
		o.Diagnostics.AddError(
			fmt.Sprintf("No access to cluster %q of logical cloud %q", of.request.Spec.ManagedCluster, cloud),
			describe(o.Client, of.request, timeout, of.err))
	} else {
		hub.AddAPIError(o.Diagnostics, o.Client, fmt.Sprintf("get access to the clusters of logical cloud "+
			"%q", cloud), err)
	}
	return note, renewAt
}

// session is what is asked for at once.
type session struct {
	*crud.Opening
	opened
}

// open asks for access to all clusters side by side, waits for all answers, and fills in
// what came of it.
func (s *session) open(ctx context.Context) error {
	id, err := hubID(ctx, s.Hub, s.Client)
	if err != nil {
		return err
	}
	ask := askOf(s.Values)
	ask.HubID, ask.User = id, s.Values.Text("user")
	if ask.User == "" {
		if ask.User, err = whoami(ctx, s.Client); err != nil {
			return err
		}
	}
	groups, _ := s.Values["groups"].(types.Set)
	ask.Groups = attribute.StringList(groups)
	var cloud *v1alpha1.LogicalCloud // nil where the user may use it and not read it
	if found := (&v1alpha1.LogicalCloud{}); s.Client.Get(ctx, found, ask.Namespace, ask.Cloud) == nil {
		cloud = found // else the answer to the request says more
	}
	ask.Mode = v1alpha1.AccessMode(cmp.Or(s.Values.Text("mode"), string(useraccess.ModeFor(cloud))))
	credentials, err := s.ask(ctx, ask)
	if err != nil {
		return err
	}
	ways, of := map[string]attr.Value{}, map[string]attr.Type{}
	for name := range wayInAttributes() {
		of[name] = types.StringType
	}
	var entries []useraccess.Entry
	for _, c := range credentials {
		way := wayIn(c)
		ways[c.Cluster] = types.ObjectValueMust(of, way)
		if s.Values.IsSet("managed_cluster") {
			maps.Copy(s.Values, way)
		}
		entries = append(entries, c.Entry())
	}
	namespace := ""
	if cloud != nil {
		namespace = cloud.Spec.Namespace.Name
	}
	text, err := useraccess.Kubeconfig(entries, namespace)
	s.Values["granted_to"], s.Values["kubeconfig"] = types.StringValue(ask.User), types.StringValue(string(text))
	s.Values["expires_at"] = types.StringValue(s.NotAfter.UTC().Format(time.RFC3339))
	s.Values["clusters"] = types.MapValueMust(types.ObjectType{AttrTypes: of}, ways)
	return err
}

// ask asks for access to all clusters side by side, and waits for all answers.
func (s *session) ask(ctx context.Context, ask useraccess.Ask) ([]useraccess.Credential, error) {
	keys, err := useraccess.NewKeys()
	if err != nil {
		return nil, err
	}
	clusters := []string{ask.Cluster}
	if several, _ := s.Values["managed_clusters"].(types.Set); ask.Cluster == "" {
		clusters = attribute.Sorted(attribute.StringList(several))
	}
	var requests []request
	for _, ask.Cluster = range clusters {
		r, err := ask.Request(keys)
		if err == nil {
			err = s.Client.Create(ctx, r)
		}
		if err != nil {
			return nil, fmt.Errorf("ask for access to cluster %q: %w", ask.Cluster, err)
		}
		requests, s.Requests = append(requests, r), append(s.Requests, objectName{r.Namespace, r.Name})
	}
	var credentials []useraccess.Credential
	for _, r := range requests {
		if err := await(ctx, s.Client, r); err != nil {
			return nil, &clusterError{r, err}
		}
		c, err := useraccess.Open(r, keys, ask.HubID)
		if err != nil {
			return nil, &clusterError{r, &refusedError{err.Error()}}
		}
		if s.NotAfter.IsZero() || c.NotAfter.Before(s.NotAfter) {
			s.NotAfter = c.NotAfter
		}
		credentials = append(credentials, c)
	}
	return credentials, nil
}

// clusterError is that of one of several requests.
type clusterError struct {
	request request
	err     error
}

// Error implements error.
func (e *clusterError) Error() string { return e.err.Error() }
