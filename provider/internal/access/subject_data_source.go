package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

// NewSubject is the data source muster_access_subject.
func NewSubject() datasource.DataSource {
	text := attribute.TextAttribute
	return crud.Query{
		Type: "access_subject",
		Description: "The subject that a certificate request has to have with which a user asks for access to " +
			"clusters, for `tls_cert_request` and `muster_access_request`. The hub takes no other.",
		Attributes: func() map[string]schema.Attribute {
			return map[string]schema.Attribute{
				"public_key_pem": attribute.Required("The public key of the request, in PEM: `public_key_pem` of a "+
					"`tls_private_key`. ECDSA P-256 or P-384, or RSA of at least 3072 bits.", attribute.ValidPEM()),
				"user": schema.StringAttribute{
					MarkdownDescription: "User of the hub that gets access. If omitted, the one that the provider is " +
						"to the hub.",
					Optional: true, Computed: true,
					Validators: []validator.String{attribute.LengthBetween(1, 253)},
				},
				"hub_id":      text("Short name of the hub, which keeps the users of two hubs apart in a cluster."),
				"key_hash":    text("Hash of the key, as the hub's events and the status of requests have it."),
				"common_name": text("Common name of the subject."),
				"organization": text("Organization of the subject, its only one: the group to which the clusters " +
					"give rights."),
			}
		},
		Read: readSubject,
	}.NewDataSource()
}

func readSubject(ctx context.Context, a *crud.Asking, values attribute.Values) {
	hash, err := publicKeyHash(values.Text("public_key_pem"))
	if err != nil {
		a.Diagnostics.AddAttributeError(path.Root("public_key_pem"), "Not a public key",
			attribute.Capitalize(err.Error())+".")
		return
	}
	id, err := hubID(ctx, a.Hub, a.Client)
	user := values.Text("user")
	if err == nil && !values.IsSet("user") {
		user, err = whoami(ctx, a.Client)
	}
	if a.Failed("find the subject of a certificate request", err) {
		return
	}
	subject := access.Subject(id, user, hash)
	for name, text := range map[string]string{
		"user": user, "hub_id": id, "key_hash": hash,
		"common_name": subject.CommonName, "organization": subject.Organization[0],
	} {
		values[name] = types.StringValue(text)
	}
}

// publicKeyHash is the hash of a public key in PEM. It never repeats the text, which
// may be a private key by mistake.
func publicKeyHash(text string) (string, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" {
		return "", errors.New("it is not a PEM block PUBLIC KEY; use public_key_pem of the tls_private_key, not " +
			"private_key_pem or public_key_openssh")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return "", errors.New("the PEM block PUBLIC KEY can't be read")
	}
	return access.KeyHash(key)
}
