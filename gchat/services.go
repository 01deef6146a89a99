package gchat

import (
	"context"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/state/config"
)

// Services are Google's APIs as a Chat app uses them, or what stands in their place, with the credentials of a configuration.
// Errors are ErrEndpoint and ErrCredentials.
func Services(ctx context.Context, cfg *config.Config) (*chat.Service, *pubsub.Service, error) {
	options, _, err := serviceOptions(cfg.APIEndpoint, cfg.CredentialsFile, chat.ChatBotScope, "")
	if err != nil {
		return nil, nil, err
	}
	messages, err := chat.NewService(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	options, _, err = serviceOptions(cfg.PubSubEndpoint, cfg.CredentialsFile, pubsub.PubsubScope, "")
	if err != nil {
		return nil, nil, err
	}
	events, err := pubsub.NewService(ctx, options...)
	return messages, events, err
}
