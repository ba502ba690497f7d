// Package access has the resource muster_access_request, the data source
// muster_access_subject and the ephemeral resource muster_cluster_kubeconfig: a
// user's way into the clusters of a logical cloud.
package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

type (
	request       = *v1alpha1.AccessRequest
	requestChange = crud.Change[request]
)

// Request is muster_access_request, which keeps an access request that is good. A request
// can't be changed: to renew access, another one is made, and the former is deleted when
// the new one is issued. So the key has access all the time; a key that is withdrawn first
// is refused until its certificate has ended.
func Request() crud.Declared {
	return &crud.Kind[request]{
		Type: "access_request", Noun: "access request", Empty: &v1alpha1.AccessRequest{}, Sole: true,
		Description: "Asks for access to one cluster of a logical cloud with a certificate request of one's own, and " +
			"waits for the certificate. The key is not needed and not known: the state holds the certificate only, " +
			"which is public. For a credential that lasts for one run of Terraform, and whose key is in no state, " +
			"use the ephemeral resource `muster_cluster_kubeconfig`.\n\n" +
			"Access ends, in hours as a rule. An apply within `renew_before` of the end asks again, and withdraws " +
			"the former request once the new one is issued; so does a changed `csr_pem` or `ttl`. Without an apply " +
			"nothing is renewed. Destroying the resource withdraws access at once.",
		Keys: []crud.Key{
			{Name: "namespace", Description: "Namespace of the request on the hub, that of the cloud."},
			{Name: "name", Description: "Name of the request on the hub. Each renewal has another one."},
		},
		Make: func(values attribute.Values) []string {
			ask := askOf(values)
			return []string{ask.Namespace, useraccess.NewName(ask.Cluster)}
		},
		Table: append(requestTable(), answerTable()...),
		Timeouts: crud.Timeouts{
			Create: "the answer", Update: "the answer to a renewal", Standard: defaultWait,
			Delete: "withdrawing access, which waits for the cluster's agent,",
		},
		Hooks: crud.Hooks[request]{
			Fill: func(_ []string, object request) { object.Spec.Mode = v1alpha1.AccessCertificate },
			Refuse: func(live request) error {
				if len(live.Spec.Request) == 0 {
					return errors.New("it asks for a token, which muster_access_request does not do: only requests " +
						"with a certificate request can be imported")
				}
				return nil
			},
			Validate:   validateRequest,
			Plan:       planRequest,
			Own:        func(values attribute.Values, o *crud.Owned) { o.What = askOf(values).What() },
			AfterWrite: answered,
			Late: func(_ context.Context, c *requestChange) (summary, detail string) {
				summary = "Not withdrawn yet: " + askOf(c.Prior).What()
				if end := timeText(c.Object.Status.NotAfter); end != "" {
					summary += ". The certificate ends by itself at " + end
				}
				return summary, hub.DescribeDeletion(c.Object, time.Now()) + "\n" +
					hub.DescribeConditions(c.Object.Status.Conditions, time.Now())
			},
		},
		List: &crud.List[request]{
			Plural: "access requests", Objects: &v1alpha1.AccessRequestList{}, Needs: hub.AccessNeeds,
			About:    "Requests for tokens are not listed, as the resource makes none.",
			Is:       func(object request) bool { return object.Spec.Mode == v1alpha1.AccessCertificate },
			Cluster:  func(object request) string { return object.Spec.ManagedCluster },
			Describe: func(object request) string { return object.Spec.User },
		},
	}
}

// askOf is what the attributes of a resource ask for, but for user and certificate.
func askOf(values attribute.Values) useraccess.Ask {
	namespace, cloud, _ := useraccess.SplitCloud(values.Text("logical_cloud")) // validated
	lifetime, _ := time.ParseDuration(values.Text("ttl"))                      // 0 when it is left out; validated
	return useraccess.Ask{
		Namespace: namespace, Cloud: cloud, Cluster: values.Text("managed_cluster"), Lifetime: lifetime,
	}
}

// requestTable are the attributes of a request that the configuration sets.
func requestTable() attribute.Table[request] {
	isAnother := func(_ attribute.Owned, object request) bool {
		return object.Spec.User != object.Spec.Requester.Username
	}
	user := attribute.Optional("User of the hub that gets access, if not the one that the provider is to the hub. "+
		"Asking for another needs the right to impersonate that user. Changing it replaces the request.",
		stringvalidator.LengthBetween(1, 253))
	user.PlanModifiers = []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return attribute.Table[request]{
		attribute.Code("logical_cloud", attribute.Identifying("The logical cloud as `namespace/name`: `id` of a "+
			"`muster_logical_cloud`. Changing it replaces the request.", validCloud()),
			func(cloud types.String, to request) {
				_, to.Spec.LogicalCloud, _ = useraccess.SplitCloud(cloud.ValueString()) // validated
			},
			func(from request) types.String {
				return types.StringValue(from.Namespace + "/" + from.Spec.LogicalCloud)
			}).Once(),
		attribute.Text("managed_cluster",
			attribute.Identifying("One of the cloud's clusters. Changing it replaces the request.",
				attribute.ValidClusterName()),
			func(r request) *string { return &r.Spec.ManagedCluster }).Once(),
		attribute.Code("csr_pem", attribute.Required("Certificate request in PEM: `cert_request_pem` of a "+
			"`tls_cert_request`, or what `muster access request` prints. Its subject has to be that of the data "+
			"source `muster_access_subject`. Changing it asks again, and withdraws the former key when there is a "+
			"new certificate.", validRequest()),
			func(text types.String, to request) { to.Spec.Request = []byte(text.ValueString()) },
			func(from request) types.String { return types.StringValue(string(from.Spec.Request)) }).
			At("spec.request").Once(),
		attribute.Text("user", user, func(r request) *string { return &r.Spec.User }).LeftToOthers(isAnother).Once(),
		attribute.TextSet("groups",
			schema.SetAttribute{
				MarkdownDescription: "Groups of `user`, by which grants to groups are found. Each needs the right to " +
					"impersonate it. Only with `user`. Changing them replaces the request.",
				Optional:      true,
				PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1), setvalidator.AlsoRequires(path.MatchRoot("user")),
				},
			},
			func(r request) *[]string { return &r.Spec.Requester.Groups }).LeftToOthers(isAnother).Once(),
		attribute.Seconds("ttl", attribute.Optional("How long access lasts, such as `8h`: whole seconds from `10m`, "+
			"and not longer than the cloud allows. If omitted, what the cloud says. Changing it asks "+
			"again.", ValidLifetime()),
			func(r request) *int32 { return &r.Spec.ExpirationSeconds }).At("spec.expirationSeconds").Once(),
		attribute.Local[request]("renew_before", attribute.Optional("How long before the end an apply asks again, "+
			"such as `2h`. If omitted, when a third of the time is left.", attribute.ValidDuration(time.Second))),
	}
}

// answerTable are the attributes that the hub reports. All of them are unknown while a
// renewal is planned.
func answerTable() attribute.Table[request] {
	endpoint := func(r request) (e v1alpha1.Endpoint) {
		if len(r.Status.Endpoints) > 0 {
			e = r.Status.Endpoints[0]
		}
		return e
	}
	return attribute.Table[request]{
		attribute.ReportedTextOrNull("granted_to", "User of the hub that has "+
			"access.", func(r request) string { return r.Spec.User }),
		attribute.ReportedTextOrNull("certificate_pem", "The client certificate with its chain, in PEM. Null when "+
			"access has ended or was withdrawn.", func(r request) string { return string(r.Status.Certificate) }),
		attribute.ReportedTextOrNull("endpoint", "URL of the cluster's API server. Null where the cluster's agent "+
			"does not report it.",
			func(r request) string { return endpoint(r).URL }),
		attribute.ReportedTextOrNull("cluster_ca_certificate", "PEM certificates of the authorities that vouch for "+
			"the cluster's API server. Null where the system's "+
			"do.", func(r request) string { return string(endpoint(r).CABundle) }),
		attribute.ReportedTextOrNull("not_before", "When access begins, in RFC 3339.",
			func(r request) string { return timeText(r.Status.NotBefore) }),
		attribute.ReportedTextOrNull("not_after", "When access ends, in RFC 3339.",
			func(r request) string { return timeText(r.Status.NotAfter) }),
		attribute.ReportedTextOrNull("serial", "Serial number of the certificate, in hexadecimal digits.",
			func(r request) string { return r.Status.Serial }),
		attribute.ReportedTextOrNull("key_hash", "Hash of the key that has access, as in the hub's events.",
			func(r request) string { return r.Status.KeyHash }),
	}
}

// timeText is a time in RFC 3339; "" for none.
func timeText(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// answered waits for the answer to a request that was written.
func answered(ctx context.Context, c *requestChange) bool {
	if c.Prior != nil && !c.Changes.In("name") {
		return true // What has changed concerns Terraform alone.
	}
	what := askOf(c.Plan).What()
	err := await(ctx, c.Client, c.Object)
	switch {
	case err != nil:
		c.Diagnostics.AddError("No access: "+what, describe(c.Client, c.Object, c.Timeout, err))
	case len(c.Object.Status.Certificate) == 0:
		c.Diagnostics.AddError("No access: "+what, "The hub says that access is issued, but there is no certificate "+
			"in the answer.")
	default:
		if len(c.Object.Status.Endpoints) == 0 {
			why := attribute.Capitalize(useraccess.NoEndpoint(c.Object).Error())
			c.Diagnostics.AddWarning("Nobody knows where the cluster is: "+what, why+". Until then endpoint is null.")
		}
		if c.Prior != nil {
			withdraw(ctx, c.Client, c.Diagnostics, objectName{c.Prior.Text("namespace"), c.Prior.Text("name")})
		}
		return true
	}
	if c.Prior == nil {
		return true // It is there, and must not be lost.
	}
	// The former one stays in the state, and this one must not be left behind.
	withdraw(ctx, c.Client, c.Diagnostics, objectName{c.Object.Namespace, c.Object.Name})
	crud.KeepClaim(ctx, c.NewPrivate, crud.ClaimOf(ctx, c.Private, c.Diagnostics), c.Diagnostics)
	return false
}

type objectName struct{ Namespace, Name string }

// withdraw deletes requests that are not needed any more. That one can't be deleted is no
// reason to fail: it ends by itself.
func withdraw(ctx context.Context, client *kube.Client, diags *diag.Diagnostics, requests ...objectName) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hub.ReadTimeout)
	defer cancel()
	for _, r := range requests {
		if _, err := client.Delete(ctx, &v1alpha1.AccessRequest{}, r.Namespace, r.Name, ""); err != nil {
			diags.AddWarning(fmt.Sprintf("Not withdrawn: access request %q", r.Namespace+"/"+r.Name),
				fmt.Sprintf("%s It ends by itself; to end it now: kubectl delete accessrequest -n %s %s",
					hub.Explain(client.Host(), "delete it", err), r.Namespace, r.Name))
		}
	}
}

// What is checked and decided of an access request while planning.

// validateRequest refuses a renewal before access has begun.
func validateRequest(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) {
	var ttl, before types.String
	diags.Append(config.GetAttribute(ctx, path.Root("ttl"), &ttl)...)
	diags.Append(config.GetAttribute(ctx, path.Root("renew_before"), &before)...)
	life, err := time.ParseDuration(ttl.ValueString())
	earlier, alsoErr := time.ParseDuration(before.ValueString())
	if errors.Join(err, alsoErr) == nil && earlier >= life {
		diags.AddAttributeError(path.Root("renew_before"), "Renewed as soon as it is there",
			fmt.Sprintf("renew_before is %s, and ttl is %s, so every apply would ask again. Shorten renew_before.",
				before.ValueString(), ttl.ValueString()))
	}
}

// planRequest plans to ask again where access ends soon. The hub is asked what would come
// of a first request.
func planRequest(
	ctx context.Context, _ *crud.Resource, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) bool {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return true
	}
	answer := append(answerTable().Reports(), "namespace", "name")
	crud.KeepReported(req, resp, answer...)
	var state types.Object
	var before types.String
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("renew_before"), &before)...)
	if resp.Diagnostics.HasError() {
		return false
	}
	again := attribute.ChangesBetween(resp.Plan.Raw, req.State.Raw).In("csr_pem", "ttl")
	if again || due(state.Attributes(), before.ValueString(), time.Now()) {
		crud.PlanUnknown(resp, answer...)
	}
	return false
}

// due reports whether access has ended, or ends so soon that it is to be renewed.
func due(state attribute.Values, renewBefore string, now time.Time) bool {
	end, err := time.Parse(time.RFC3339, state.Text("not_after"))
	if err != nil || state.Text("certificate_pem") == "" {
		return true
	}
	before, err := time.ParseDuration(renewBefore)
	if begin, unknown := time.Parse(time.RFC3339, state.Text("not_before")); err != nil && unknown == nil {
		before = end.Sub(begin) / 3
	}
	return !now.Before(end.Add(-before))
}

// validCloud admits logical clouds as namespace/name.
func validCloud() validator.String {
	return attribute.ValidText("a logical cloud as "+
		"namespace/name", func(_ path.Path, text string) (summary, detail string) {
		if _, _, err := useraccess.SplitCloud(text); err != nil {
			return "Invalid logical cloud", attribute.Capitalize(err.Error()) + "."
		}
		return "", ""
	})
}

// ValidLifetime admits the API's lifetimes of access.
func ValidLifetime() validator.String {
	const description = "a duration such as 30m or 12h, in whole seconds, from 10m to 8760h"
	return attribute.ValidText(description, func(at path.Path, text string) (summary, detail string) {
		if d, err := time.ParseDuration(text); err != nil || d == 0 || useraccess.CheckLifetime(d) != nil {
			return "Invalid lifetime", fmt.Sprintf("%s is %q, but it takes whole seconds from 10m to 8760h, such as "+
				"8h.",
				attribute.Place(at), text)
		}
		return "", ""
	})
}

// validRequest admits certificate requests that a hub might take. It never repeats the
// text, which may be a key by mistake.
func validRequest() validator.String {
	const description = "a certificate request in PEM, with the subject of muster_access_subject"
	return attribute.ValidText(description, func(_ path.Path, text string) (summary, detail string) {
		if err := checkRequest([]byte(text)); err != nil {
			return "Invalid certificate request", fmt.Sprintf("The hub would refuse it: %v. Take the subject from "+
				"the data source muster_access_subject, with the request's public key.", err)
		}
		return "", ""
	})
}

// checkRequest checks all of a certificate request that can be checked without the
// hub: that its subject fits together, whatever user and hub it names.
func checkRequest(text []byte) error {
	hubID, user := "", ""
	if block, _ := pem.Decode(text); block != nil {
		if csr, err := x509.ParseCertificateRequest(block.Bytes); err == nil {
			rest, _ := strings.CutPrefix(csr.Subject.CommonName, "muster:")
			hubID, user, _ = strings.Cut(rest, ":")
		}
	}
	_, err := access.CheckRequest(text, hubID, user)
	return err
}
