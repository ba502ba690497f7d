package access

import (
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// Between the model of an access request and the API's object.

type requestModel struct {
	LogicalCloud   types.String   `tfsdk:"logical_cloud"`
	ManagedCluster types.String   `tfsdk:"managed_cluster"`
	CSR            types.String   `tfsdk:"csr_pem"`
	User           types.String   `tfsdk:"user"`
	Groups         []types.String `tfsdk:"groups"`
	TTL            types.String   `tfsdk:"ttl"`
	RenewBefore    types.String   `tfsdk:"renew_before"`
	answerModel
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

// answerModel is what the hub reports. All of it is unknown while a renewal is
// planned.
type answerModel struct {
	Namespace   types.String `tfsdk:"namespace"`
	Name        types.String `tfsdk:"name"`
	GrantedTo   types.String `tfsdk:"granted_to"`
	Certificate types.String `tfsdk:"certificate_pem"`
	Endpoint    types.String `tfsdk:"endpoint"`
	CA          types.String `tfsdk:"cluster_ca_certificate"`
	NotBefore   types.String `tfsdk:"not_before"`
	NotAfter    types.String `tfsdk:"not_after"`
	Serial      types.String `tfsdk:"serial"`
	KeyHash     types.String `tfsdk:"key_hash"`
}

// answers are the names of the attributes of answerModel.
func answers() []string {
	return []string{"namespace", "name", "granted_to", "certificate_pem", "endpoint", "cluster_ca_certificate", "not_before", "not_after", "serial", "key_hash"}
}

func requestAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"logical_cloud": attribute.Identifying("The logical cloud as `namespace/name`: `id` of a `muster_logical_cloud`. Changing it replaces the request.", validCloud()),
		"managed_cluster": attribute.Identifying("One of the cloud's clusters. Changing it replaces the request.",
			attribute.ValidClusterName()),
		"csr_pem": schema.StringAttribute{
			MarkdownDescription: "Certificate request in PEM: `cert_request_pem` of a `tls_cert_request`, or what `muster access request` prints. Its subject has to be that of the data source `muster_access_subject`. " +
				"Changing it asks again, and withdraws the former key when there is a new certificate.",
			Required:   true,
			Validators: []validator.String{validRequest()},
		},
		"user": schema.StringAttribute{
			MarkdownDescription: "User of the hub that gets access, if not the one that the provider is to the hub. Asking for another needs the right to impersonate that user. Changing it replaces the request.",
			Optional:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:          []validator.String{stringvalidator.LengthBetween(1, 253)},
		},
		"groups": schema.SetAttribute{
			MarkdownDescription: "Groups of `user`, by which grants to groups are found. Each needs the right to impersonate it. Only with `user`. Changing them replaces the request.",
			Optional:            true, ElementType: types.StringType,
			PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
			Validators:    []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.AlsoRequires(path.MatchRoot("user"))},
		},
		"ttl": schema.StringAttribute{
			MarkdownDescription: "How long access lasts, such as `8h`: whole seconds from `10m`, and not longer than the cloud allows. If omitted, what the cloud says. Changing it asks again.",
			Optional:            true,
			Validators:          []validator.String{validLifetime()},
		},
		"renew_before": schema.StringAttribute{
			MarkdownDescription: "How long before the end an apply asks again, such as `2h`. If omitted, when a third of the time is left.",
			Optional:            true,
			Validators:          []validator.String{attribute.ValidDuration(time.Second)},
		},
	}
}

func answerAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"namespace":              attribute.TextAttribute("Namespace of the request on the hub, that of the cloud."),
		"name":                   attribute.TextAttribute("Name of the request on the hub. Each renewal has another one."),
		"granted_to":             attribute.TextAttribute("User of the hub that has access."),
		"certificate_pem":        attribute.TextAttribute("The client certificate with its chain, in PEM. Null when access has ended or was withdrawn."),
		"endpoint":               attribute.TextAttribute("URL of the cluster's API server. Null where the cluster's agent does not report it."),
		"cluster_ca_certificate": attribute.TextAttribute("PEM certificates of the authorities that vouch for the cluster's API server. Null where the system's do."),
		"not_before":             attribute.TextAttribute("When access begins, in RFC 3339."),
		"not_after":              attribute.TextAttribute("When access ends, in RFC 3339."),
		"serial":                 attribute.TextAttribute("Serial number of the certificate, in hexadecimal digits."),
		"key_hash":               attribute.TextAttribute("Hash of the key that has access, as in the hub's events."),
	}
}

// What implements crud.Model.
func (m *requestModel) What() string {
	return fmt.Sprintf("access to cluster %q of logical cloud %q", m.ManagedCluster.ValueString(), m.LogicalCloud.ValueString())
}

// Key implements crud.Model.
func (m *requestModel) Key() (namespace, name string) {
	return m.Namespace.ValueString(), m.Name.ValueString()
}

// Identity implements crud.Model.
func (m *requestModel) Identity() any {
	return attribute.NamespacedIdentity{Namespace: m.Namespace, Name: m.Name}
}

// object is a request of the model, under a name of its own.
func (m *requestModel) object() (*v1alpha1.AccessRequest, error) {
	namespace, cloud, err := useraccess.SplitCloud(m.LogicalCloud.ValueString())
	if err != nil {
		return nil, err
	}
	lifetime, _ := time.ParseDuration(m.TTL.ValueString()) // 0 when it is left out; validated
	return useraccess.Ask{
		Namespace: namespace, Cloud: cloud, Cluster: m.ManagedCluster.ValueString(), User: m.User.ValueString(), Groups: attribute.Texts(m.Groups),
		Mode: v1alpha1.AccessCertificate, Lifetime: lifetime,
	}.RequestWith([]byte(m.CSR.ValueString()))
}

// owned is the request as an object of the hub.
func (m *requestModel) owned(object *v1alpha1.AccessRequest) crud.Owned {
	o := crud.Own(object, m.What(), object.Namespace+"/"+object.Name, types.BoolNull(), types.BoolNull())
	o.Places = map[string]string{"spec.request": "csr_pem", "spec.expirationSeconds": "ttl"}
	return o
}

// report takes over what the hub reports.
func (m *answerModel) report(object *v1alpha1.AccessRequest) {
	status := object.Status
	m.Namespace, m.Name = types.StringValue(object.Namespace), types.StringValue(object.Name)
	m.GrantedTo = types.StringValue(object.Spec.User)
	m.Certificate = attribute.OptionalString(string(status.Certificate))
	m.Endpoint, m.CA = types.StringNull(), types.StringNull()
	if len(status.Endpoints) > 0 {
		m.Endpoint, m.CA = attribute.OptionalString(status.Endpoints[0].URL), attribute.OptionalString(string(status.Endpoints[0].CABundle))
	}
	m.NotBefore, m.NotAfter = types.StringNull(), types.StringNull()
	if status.NotBefore != nil {
		m.NotBefore = types.StringValue(status.NotBefore.UTC().Format(time.RFC3339))
	}
	if status.NotAfter != nil {
		m.NotAfter = types.StringValue(status.NotAfter.UTC().Format(time.RFC3339))
	}
	m.Serial, m.KeyHash = attribute.OptionalString(status.Serial), attribute.OptionalString(status.KeyHash)
}

// due reports whether access has ended, or ends so soon that it is to be renewed.
func (m *requestModel) due(now time.Time) bool {
	end, err := time.Parse(time.RFC3339, m.NotAfter.ValueString())
	if err != nil || m.Certificate.ValueString() == "" {
		return true
	}
	before, err := time.ParseDuration(m.RenewBefore.ValueString())
	if err != nil {
		begin, err := time.Parse(time.RFC3339, m.NotBefore.ValueString())
		if err != nil {
			return !now.Before(end)
		}
		before = end.Sub(begin) / 3
	}
	return !now.Before(end.Add(-before))
}

// unknownAnswer is what is planned where it asks again.
func unknownAnswer() map[string]attr.Value {
	unknown := map[string]attr.Value{}
	for _, name := range answers() {
		unknown[name] = types.StringUnknown()
	}
	return unknown
}
