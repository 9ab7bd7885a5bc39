import { DEFAULT_LIMITS } from '../../domain/context.js'
import {
  createdUserKeyDocument,
  invitedUserDocument,
  keyedServiceAccountDocument,
  serviceAccountDocument,
  userDocument,
  userKeyDocument,
} from '../../domain/documents.js'
import {
  invitationInput,
  pageQuery,
  rotateInput,
  serviceAccountInput,
  userInput,
  userKeyInput,
  userUpdate,
} from '../../domain/inputs.js'
import { type Route, route } from '../route.js'

const full = (most: number, what: string) => ({
  409: { limit_reached: `There are ${most} ${what}, the most that are possible.` },
})
const KEYS_FULL = full(DEFAULT_LIMITS.keysPerUser, 'personal keys of the user that have not expired')

/** Service accounts and their keys. At enterprise scope, those of the enterprise. */
const serviceAccounts: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/service-account',
    operation: 'listServiceAccounts',
    tag: 'service account',
    summary: 'Service accounts of the account; at enterprise scope those of the enterprise.',
    scope: 'account:manage',
    query: pageQuery,
    answers: { 200: { description: 'A page of them.', list: ['service_account', serviceAccountDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.serviceAccounts.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/service-account',
    operation: 'createServiceAccount',
    tag: 'service account',
    summary: 'Makes a service account with its key.',
    scope: 'account:manage',
    body: serviceAccountInput,
    bodyOptional: true,
    answers: {
      201: {
        description: 'The service account. The key is shown this once.',
        one: ['service_account', keyedServiceAccountDocument],
      },
    },
    refusals: full(DEFAULT_LIMITS.serviceAccounts, 'service accounts'),
    handle: async ({ service, principal, body }) => ({ one: await service.serviceAccounts.create(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/service-account/{id}',
    operation: 'getServiceAccount',
    tag: 'service account',
    summary: 'A service account.',
    scope: 'account:manage',
    answers: { 200: { description: 'The service account.', one: ['service_account', serviceAccountDocument] } },
    handle: async ({ service, principal, params }) => ({
      one: await service.serviceAccounts.get(principal, params.id!),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/service-account/{id}',
    operation: 'deleteServiceAccount',
    tag: 'service account',
    summary: 'Removes a service account with its key.',
    scope: 'account:manage',
    answers: { 204: { description: 'It is gone.' } },
    handle: async ({ service, principal, params }) => {
      await service.serviceAccounts.remove(principal, params.id!)
      return {}
    },
  }),
  route({
    method: 'POST',
    path: '/v3/service-account/{id}/key/rotate',
    operation: 'rotateServiceAccountKey',
    tag: 'service account',
    summary: 'Makes another key. The old one stops at once, or after the grace that is asked for.',
    scope: 'account:manage',
    body: rotateInput,
    bodyOptional: true,
    answers: {
      200: {
        description: 'The service account. The key is shown this once.',
        one: ['service_account', keyedServiceAccountDocument],
      },
    },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.serviceAccounts.rotate(principal, params.id!, body),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/service-account/{id}/key',
    operation: 'revokeServiceAccountKey',
    tag: 'service account',
    summary: 'Revokes the key: it stops at the next request.',
    scope: 'account:manage',
    answers: { 204: { description: 'It is revoked.' } },
    handle: async ({ service, principal, params }) => {
      await service.serviceAccounts.revoke(principal, params.id!)
      return {}
    },
  }),
]

/** Users of an account; for its managers. */
const users: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/user',
    operation: 'listUsers',
    tag: 'user',
    summary: 'Users of the account.',
    scope: 'account:manage',
    query: pageQuery,
    answers: { 200: { description: 'A page of users.', list: ['user', userDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.users.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/user',
    operation: 'createUser',
    tag: 'user',
    summary: 'Makes a user with a first key, for that person to make their own with.',
    scope: 'account:manage',
    body: userInput,
    answers: { 201: { description: 'The user. The key is shown this once.', one: ['user', invitedUserDocument] } },
    refusals: {
      409: {
        ...full(DEFAULT_LIMITS.users, 'users in the account')[409],
        email_taken: 'The account has a user with this address.',
      },
    },
    handle: async ({ service, principal, body }) => ({ one: await service.users.create(principal, body) }),
  }),
  route({
    method: 'GET',
    path: '/v3/user/{id}',
    operation: 'getUser',
    tag: 'user',
    summary: 'A user.',
    scope: 'account:manage',
    answers: { 200: { description: 'The user.', one: ['user', userDocument] } },
    handle: async ({ service, principal, params }) => ({ one: await service.users.get(principal, params.id!) }),
  }),
  route({
    method: 'PUT',
    path: '/v3/user/{id}',
    operation: 'updateUser',
    tag: 'user',
    summary: 'Changes the role: it acts on the keys of the user at once.',
    scope: 'account:manage',
    body: userUpdate,
    answers: { 200: { description: 'The user as it is now.', one: ['user', userDocument] } },
    refusals: { 409: { last_manager: 'An account keeps one manager at least.' } },
    handle: async ({ service, principal, params, body }) => ({
      one: await service.users.update(principal, params.id!, body),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/user/{id}',
    operation: 'deleteUser',
    tag: 'user',
    summary: 'Removes a user with all keys.',
    scope: 'account:manage',
    answers: { 204: { description: 'It is gone.' } },
    refusals: { 409: { last_manager: 'An account keeps one manager at least.' } },
    handle: async ({ service, principal, params }) => {
      await service.users.remove(principal, params.id!)
      return {}
    },
  }),
  route({
    method: 'POST',
    path: '/v3/user/{id}/invite',
    operation: 'inviteUser',
    tag: 'user',
    summary: 'Makes another first key, for who has lost theirs.',
    scope: 'account:manage',
    body: invitationInput,
    bodyOptional: true,
    answers: { 200: { description: 'The user. The key is shown this once.', one: ['user', invitedUserDocument] } },
    refusals: KEYS_FULL,
    handle: async ({ service, principal, params, body }) => ({
      one: await service.users.invite(principal, params.id!, body),
    }),
  }),
]

/** Personal keys; for the user who owns them. */
const userKeys: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v3/user/key',
    operation: 'listUserKeys',
    tag: 'personal key',
    summary: 'Personal keys of the calling user.',
    scope: 'user:key',
    query: pageQuery,
    answers: { 200: { description: 'A page of keys, without what is secret.', list: ['key', userKeyDocument] } },
    handle: async ({ service, principal, query }) => ({ page: await service.userKeys.list(principal, query) }),
  }),
  route({
    method: 'POST',
    path: '/v3/user/key',
    operation: 'createUserKey',
    tag: 'personal key',
    summary: 'Makes a personal key; it may be narrowed by scopes, and expire.',
    scope: 'user:key',
    body: userKeyInput,
    bodyOptional: true,
    answers: { 201: { description: 'The key, shown this once.', one: ['key', createdUserKeyDocument] } },
    refusals: KEYS_FULL,
    handle: async ({ service, principal, body }) => ({ one: await service.userKeys.create(principal, body) }),
  }),
  route({
    method: 'DELETE',
    path: '/v3/user/key/{id}',
    operation: 'revokeUserKey',
    tag: 'personal key',
    summary: 'Revokes a personal key: it stops at the next request.',
    scope: 'user:key',
    answers: { 204: { description: 'It is revoked.' } },
    handle: async ({ service, principal, params }) => {
      await service.userKeys.revoke(principal, params.id!)
      return {}
    },
  }),
]

export const peopleRoutes: readonly Route[] = [...serviceAccounts, ...users, ...userKeys]
