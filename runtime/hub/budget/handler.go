package budget

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// ServeHTTP answers how full the store is, at hubinfo.StorePath.
func (b *Budgets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, err := b.Size(r.Context())
	if err != nil {
		extension.Refuse(w, apierrors.NewInternalError(fmt.Errorf("ask how full the store is: %w", err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(hubinfo.Store{InUse: size.InUse, File: size.File, Quota: size.Quota, Filling: b.Filling(size)})
}
