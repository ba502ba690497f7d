package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// accessSession talks to the hub about access.
type accessSession struct {
	client client.WithWatch
	config *rest.Config
	// kubeconfig is the hub's, as an absolute path.
	kubeconfig string
	flags      *accessFlags
	progress   io.Writer
	// unreachable is whether clusters can't be asked whether they still take a token.
	unreachable bool
}

func (f *accessFlags) session(cmd *cobra.Command) (*accessSession, error) {
	path, err := f.hub.absolute()
	if err != nil {
		return nil, err
	}
	config, err := f.hub.config(path)
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, fmt.Errorf("reach the hub of %s: %w", path, err)
	}
	return &accessSession{client: c, config: config, kubeconfig: path, flags: f, progress: cmd.ErrOrStderr()}, nil
}

// hubID is the hub's short name, by what it publishes.
func (s *accessSession) hubID(ctx context.Context) (string, error) {
	info, err := s.info(ctx)
	return info[hubinfo.HubIDKey], err
}

// info is what the hub publishes about itself. A hub without user access is an error.
func (s *accessSession) info(ctx context.Context) (map[string]string, error) {
	info := &corev1.ConfigMap{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("ask the hub %s what it can do: %w", s.config.Host, err)
	}
	if info.Data[hubinfo.HubIDKey] == "" || !hubinfo.Has(info.Data, hubinfo.UserAccess) {
		return nil, fmt.Errorf("the hub %s has no user access: "+
			"it needs to be a muster hub with the feature gate UserAccess, which is on by default", s.config.Host)
	}
	return info.Data, nil
}

// user is who gets access.
func (s *accessSession) user(ctx context.Context) (string, error) {
	if s.flags.user != "" {
		return s.flags.user, nil
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := s.client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the hub %s who you are: %w", s.config.Host, err)
	}
	return review.Status.UserInfo.Username, nil
}

// cloud is the logical cloud, or nil where the user may use it and not read it.
func (s *accessSession) cloud(ctx context.Context) (*v1alpha1.LogicalCloud, error) {
	cloud := &v1alpha1.LogicalCloud{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.flags.namespace, Name: s.flags.cloudName}, cloud)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil //nolint:nilnil // what can't be read is not used
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the hub %s has no logical cloud %q: \"muster access status\" lists those that it has", s.config.Host, s.flags.cloud)
	case err != nil:
		return nil, fmt.Errorf("read the logical cloud %q: %w", s.flags.cloud, err)
	}
	return cloud, nil
}

// modeFor is how to get into a cloud: as the flag says, or as the cloud allows.
func (f *accessFlags) modeFor(cloud *v1alpha1.LogicalCloud) v1alpha1.AccessMode {
	if f.mode != "" {
		return v1alpha1.AccessMode(f.mode)
	}
	return useraccess.ModeFor(cloud)
}

// clusters are those that the cloud's placements select.
func (s *accessSession) clusters(ctx context.Context, cloud *v1alpha1.LogicalCloud) ([]string, error) {
	if cloud == nil {
		return nil, fmt.Errorf("you may not read the logical cloud %q, so its clusters are not known here: name them with --cluster", s.flags.cloud)
	}
	var names []string
	for _, placement := range cloud.Spec.Placements {
		decisions := &clusterv1beta1.PlacementDecisionList{}
		err := s.client.List(ctx, decisions, client.InNamespace(cloud.Namespace), client.MatchingLabels{cluster.PlacementLabel: placement.Name})
		if err != nil {
			return nil, fmt.Errorf("find the clusters of placement %q: %w; or name them with --cluster", placement.Name, err)
		}
		for _, d := range decisions.Items {
			for _, chosen := range d.Status.Decisions {
				names = append(names, chosen.ClusterName)
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return nil, fmt.Errorf("the logical cloud %q has no clusters: its placements select none", s.flags.cloud)
	}
	return names, nil
}

// get asks for access to a cluster with new keys, and waits for the answer.
func (s *accessSession) get(ctx context.Context, ask useraccess.Ask) (useraccess.Credential, *v1alpha1.AccessRequest, error) {
	keys, err := useraccess.NewKeys()
	if err != nil {
		return useraccess.Credential{}, nil, err
	}
	request, err := ask.Request(keys)
	if err != nil {
		return useraccess.Credential{}, nil, err
	}
	if err := s.client.Create(ctx, request); err != nil {
		return useraccess.Credential{}, nil, fmt.Errorf("ask for %s: %w", ask.What(), err)
	}
	err = s.await(ctx, request, ask.What())
	var credential useraccess.Credential
	if err == nil {
		credential, err = useraccess.Open(request, keys, ask.HubID)
		if errors.Is(err, useraccess.ErrNoEndpoint) {
			return credential, request, fmt.Errorf("%s: %w", ask.What(), err)
		}
	}
	if err != nil {
		// Nobody has the key of it.
		_ = s.client.Delete(context.WithoutCancel(ctx), request)
		return credential, nil, fmt.Errorf("%s: %w", ask.What(), err)
	}
	return credential, request, nil
}

// await waits until a request is issued, and reports what it waits for when that
// changes. request holds what was seen last.
func (s *accessSession) await(ctx context.Context, request *v1alpha1.AccessRequest, what string) error {
	said := ""
	for {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return endOf(ctx, err, said)
		}
		watching, err := s.client.Watch(ctx, &v1alpha1.AccessRequestList{}, &client.ListOptions{
			Namespace: request.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", request.Name),
			Raw: &metav1.ListOptions{ResourceVersion: request.ResourceVersion},
		})
		if err != nil {
			return endOf(ctx, err, said)
		}
		for open := true; open; {
			state, text := useraccess.Progress(request, time.Now())
			switch {
			case state == useraccess.Issued:
				watching.Stop()
				return nil
			case state == useraccess.Refused:
				watching.Stop()
				return errors.New(text)
			case text != said:
				said = text
				_, _ = fmt.Fprintf(s.progress, "%s: %s\n", what, text)
			}
			var event watch.Event
			event, open = <-watching.ResultChan()
			if next, ok := event.Object.(*v1alpha1.AccessRequest); ok && open {
				*request = *next
			}
			if event.Type == watch.Deleted {
				watching.Stop()
				return errors.New("the request was deleted meanwhile")
			}
		}
		if ctx.Err() != nil {
			return endOf(ctx, ctx.Err(), said)
		}
	}
}

// endOf is the error of a wait: with what it waited for, when its time is up.
func endOf(ctx context.Context, err error, said string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && said != "" {
		return fmt.Errorf("there was no answer in time (--timeout): %s", said)
	}
	return err
}

// printRequest prints a certificate request for the key in a file.
func (s *accessSession) printRequest(ctx context.Context, out io.Writer, path, user string) error {
	s.flags.user = user
	id, err := s.hubID(ctx)
	if err != nil {
		return err
	}
	if user, err = s.user(ctx); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		keys, failed := useraccess.NewKeys()
		if failed != nil {
			return failed
		}
		if data, err = keys.KeyPEM(); err == nil {
			err = writeNew(path, data)
		}
	}
	if err != nil {
		return fmt.Errorf("the key in %s: %w", path, err)
	}
	key, err := useraccess.ParseKey(data)
	if err != nil {
		return fmt.Errorf("the key in %s: %w", path, err)
	}
	request, err := access.NewRequest(key, id, user)
	if err != nil {
		return err
	}
	_, err = out.Write(request)
	return err
}

// writeNew writes a file that is not there yet, for its owner alone.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// completeClouds completes logical clouds.
func (f *accessFlags) completeClouds(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if s, err := f.session(cmd); err == nil {
		clouds := &v1alpha1.LogicalCloudList{}
		if s.client.List(cmd.Context(), clouds) == nil {
			for _, c := range clouds.Items {
				names = append(names, c.Namespace+"/"+c.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
