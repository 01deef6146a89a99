package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"gchat-hooks/e2e/kit"
)

// fakePubSub is REST before Google's fake, which speaks gRPC. A pull that finds nothing
// waits until something is published for it.
type fakePubSub struct {
	server *pstest.Server
	pub    pubsubpb.PublisherClient
	sub    pubsubpb.SubscriberClient

	mu sync.Mutex
	// by subscription
	filters   map[string]string
	waiting   map[string]chan struct{} // closed when something may be there
	heldToEnd map[string]bool          // see wasHeldToEnd
}

func newFakePubSub(t testing.TB) *fakePubSub {
	t.Helper()
	p := &fakePubSub{
		server:    pstest.NewServer(),
		filters:   map[string]string{},
		waiting:   map[string]chan struct{}{},
		heldToEnd: map[string]bool{},
	}
	conn, err := grpc.NewClient(p.server.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	kit.NoError(t, err)
	t.Cleanup(func() { conn.Close(); p.server.Close() })
	p.pub, p.sub = pubsubpb.NewPublisherClient(conn), pubsubpb.NewSubscriberClient(conn)
	return p
}

func (p *fakePubSub) topic(t testing.TB, name string) {
	t.Helper()
	_, err := p.pub.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name})
	kit.NoError(t, err)
}

func (p *fakePubSub) subscribe(t testing.TB, s *pubsubpb.Subscription) {
	t.Helper()
	_, err := p.create(t.Context(), s)
	kit.NoError(t, err)
}

func (p *fakePubSub) create(ctx context.Context,
	s *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	if len(s.Filter) > 256 {
		return nil, status.Error(codes.InvalidArgument, "a filter has 256 bytes at most")
	}
	made, err := p.sub.CreateSubscription(ctx, s)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.filters[s.Name] = s.Filter
	}
	return made, err
}

// Publish puts something into a topic as JSON.
func (p *fakePubSub) Publish(t testing.TB, topic string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		_, err = p.publish(context.Background(),
			&pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: b}}})
	}
	kit.NoError(t, err)
}

func (p *fakePubSub) publish(ctx context.Context,
	in *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	out, err := p.pub.Publish(ctx, in)
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, filter := range p.filters {
		for _, m := range in.Messages {
			if space := m.Attributes["space"]; filter == "" ||
				strings.Contains(filter, `"`+space+`"`) {
				if c := p.waiting[name]; c != nil {
					close(c)
					delete(p.waiting, name)
				}
			}
		}
	}
	return out, err
}

// pull waits for up to 20 seconds; Google does for about 90.
func (p *fakePubSub) pull(ctx context.Context,
	in *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	//lint:ignore SA1019 it waits here
	in.ReturnImmediately = true
	callerCtx := ctx
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		p.mu.Lock()
		c := p.waiting[in.Subscription]
		if c == nil {
			c = make(chan struct{})
			p.waiting[in.Subscription] = c
		}
		p.mu.Unlock()
		got, err := p.sub.Pull(ctx, in)
		if err != nil || len(got.ReceivedMessages) > 0 {
			return got, err
		}
		select {
		case <-c:
		case <-time.After(5 * time.Second): // what was not acknowledged comes again
		case <-ctx.Done():
			p.mu.Lock()
			p.heldToEnd[in.Subscription] = callerCtx.Err() == nil
			p.mu.Unlock()
			return &pubsubpb.PullResponse{}, nil
		}
	}
}

func (p *fakePubSub) serve(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	name, verb, _ := strings.Cut(path, ":")
	answer, err := p.call(r, name, verb, body)
	if err != nil {
		code := map[codes.Code]int{
			codes.NotFound: 404, codes.AlreadyExists: 409, codes.InvalidArgument: 400,
		}[status.Code(err)]
		fail(w, max(code, 400), err.Error())
		return
	}
	b, _ := protojson.Marshal(answer)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func (p *fakePubSub) call(r *http.Request, name, verb string, body []byte) (proto.Message, error) {
	ctx := r.Context()
	in := map[string]proto.Message{
		"POST pull": &pubsubpb.PullRequest{}, "POST acknowledge": &pubsubpb.AcknowledgeRequest{},
		"POST publish": &pubsubpb.PublishRequest{},
		"PUT ":         &pubsubpb.Subscription{}, "PATCH ": &pubsubpb.UpdateSubscriptionRequest{},
		"GET ": &emptypb.Empty{}, "DELETE ": &emptypb.Empty{},
	}[r.Method+" "+verb]
	if in == nil {
		return nil, status.Error(codes.NotFound, "no such method")
	}
	if len(body) > 0 {
		if err := protojson.Unmarshal(body, in); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	switch in := in.(type) {
	case *pubsubpb.PullRequest:
		in.Subscription = name
		return p.pull(ctx, in)
	case *pubsubpb.AcknowledgeRequest:
		in.Subscription = name
		return p.sub.Acknowledge(ctx, in)
	case *pubsubpb.PublishRequest:
		in.Topic = name
		return p.publish(ctx, in)
	case *pubsubpb.Subscription:
		in.Name = name
		return p.create(ctx, in)
	case *pubsubpb.UpdateSubscriptionRequest:
		in.Subscription.Name = name
		return p.sub.UpdateSubscription(ctx, in)
	}
	switch project, isList := strings.CutSuffix(name, "/subscriptions"); {
	case isList:
		return p.sub.ListSubscriptions(ctx,
			&pubsubpb.ListSubscriptionsRequest{Project: project, PageSize: 1000})
	case r.Method == http.MethodDelete:
		return p.sub.DeleteSubscription(ctx,
			&pubsubpb.DeleteSubscriptionRequest{Subscription: name})
	}
	return p.sub.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
}

// fail answers with Google's envelope.
func fail(w http.ResponseWriter, code int, message string) {
	status := map[int]string{
		400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS",
		429: "RESOURCE_EXHAUSTED",
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"status":%q,"message":%q}}`, code, status[code], message)
}

// wasHeldToEnd reports whether the last pull from a subscription that got nothing ended
// because its time was up, and not because its caller went away.
func (p *fakePubSub) wasHeldToEnd(subscription string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldToEnd[subscription]
}

// isWaiting says whether somebody pulls from a subscription, in vain so far.
func (p *fakePubSub) isWaiting(subscription string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[subscription] != nil
}
